#!/usr/bin/env python3
"""Makes images.safetensors, the golden values of the image tests, with Pillow and torchvision.

Run it where torch, torchvision, Pillow, numpy and safetensors are installed; neither the build nor the tests need them:

    python3 tests/golden/make_image_golden.py

Images are formulas, so the same versions give the same file. For each kind of JPEG file "kind.jpeg" (its bytes) and, but for "photo",
"kind.rgb" (what Pillow decodes, [H, W, 3]); for each kind of PNG file "png_kind.png" and "png_kind.rgb"; for each framing of the file "photo" its numbers "framing.box" (top, left, height, width; the
size; mirrored, or minus the shorter side's length: resized to it, and the middle) and "framing.rgb".
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL
import torch
import torchvision
import torchvision.transforms.functional as F
from PIL import Image
from safetensors.torch import save_file


def picture(height, width):
    """Smooth shades, edges and noise, [H, W, 3]."""
    y, x = np.mgrid[0:height, 0:width]
    noise = (x * 7919 + y * 104729 + x * y * 31) % 41
    red = 120 + 90 * np.sin(x / 9.0) * np.cos(y / 13.0) + noise
    green = np.where((x // 12 + y // 8) % 2 == 0, 40, 200) + noise
    blue = 255 * (x + y) / (height + width) - noise + 60 * ((x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2)
    return np.clip(np.stack([red, green, blue], axis=2), 0, 255).astype(np.uint8)


def encode(image, **options):
    stream = io.BytesIO()
    image.save(stream, "JPEG", **{"quality": 85, **options})
    return stream.getvalue()


def with_adobe_transform(jpeg, transform):
    """The same data said to be YCCK (2), not CMYK (0)."""
    at = jpeg.index(b"Adobe") + 11
    return jpeg[:at] + bytes([transform]) + jpeg[at + 1:]


def with_luma_sampling(jpeg, factors):
    """The same blocks in another order: of a square of 32 pixels there are as many."""
    at = jpeg.index(b"\xff\xc0") + 11
    return jpeg[:at] + bytes([factors]) + jpeg[at + 1:]


def files():
    rgb = Image.fromarray(picture(29, 43))
    square = Image.fromarray(picture(32, 32))
    for name, subsampling in (("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0")):
        yield name, encode(rgb, subsampling=subsampling)
    yield "440", with_luma_sampling(encode(square, subsampling="4:2:2"), 0x12)
    yield "411", with_luma_sampling(encode(square, subsampling="4:2:0"), 0x41)
    yield "progressive", encode(rgb, progressive=True)
    yield "restarts", encode(rgb, restart_marker_blocks=2)
    yield "poor", encode(rgb, quality=4)
    yield "kept_rgb", encode(rgb, keep_rgb=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    yield "turned", encode(rgb, exif=exif)
    yield "grey", encode(rgb.convert("L"))
    inks = np.concatenate([picture(29, 43), picture(29, 43)[::-1, :, :1]], axis=2)
    cmyk = encode(Image.fromarray(inks, "CMYK"))
    yield "cmyk", cmyk
    yield "ycck", with_adobe_transform(cmyk, 2)
    for name, size in (("one_pixel", (1, 1)), ("column", (97, 1)), ("row", (1, 130))):
        yield name, encode(Image.fromarray(picture(*size)))
    yield "photo", encode(Image.fromarray(picture(150, 201)))


def damaged_files():
    """What Pillow opens all the same."""
    for name, options in (("", {}), ("_progressive", {"progressive": True})):
        jpeg = encode(Image.fromarray(picture(29, 43)), **options)
        middle = len(jpeg) * 3 // 4
        yield f"zeros{name}", jpeg[:middle] + bytes(20) + jpeg[middle + 20:]
        if not options:  # of a progressive file the details that are missing are guessed, by each version in its own way
            yield f"early_end{name}", jpeg[:middle] + b"\xff\xd9"
        yield f"stray_table{name}", jpeg[:middle] + b"\xff\xc4\x00\x02" + jpeg[middle:]
        yield f"stray_restart{name}", jpeg[:middle] + b"\xff\xd0" + jpeg[middle:]
        yield f"extraneous{name}", jpeg[:-2] + bytes(9) + jpeg[-2:] + b"more"


# The first pixel and the steps of each pass of an interlaced PNG, down and across.
ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6


def png(samples, color, depth=8, interlaced=False, chunks=()):
    """A PNG file of integers [H, W] or [H, W, C]; `chunks` go before the data."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def rows(part):
        for row in part.reshape(part.shape[0], -1):
            if depth < 8:
                bits = (row[:, None] >> np.arange(depth)[::-1]) & 1
                yield b"\0" + np.packbits(bits.astype(np.uint8).reshape(-1)).tobytes()
            else:
                yield b"\0" + row.astype(">u2" if depth == 16 else np.uint8).tobytes()

    passes = [samples[y::dy, x::dx] for y, x, dy, dx in ADAM7] if interlaced else [samples]
    data = b"".join(b"".join(rows(part)) for part in passes if part.size)
    header = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], depth, color, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*c) for c in chunks) +
            chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def png_files():
    rgb = picture(29, 43)
    grey, alpha = rgb[:, :, 1], rgb[::-1, :, 0]
    deep = rgb.astype(np.uint16) * 257 - rgb[::-1]  # both bytes matter
    palette = (b"PLTE", picture(16, 16)[:, 0].tobytes())
    yield "rgb", png(rgb, RGB)
    yield "rgb_interlaced", png(rgb, RGB, interlaced=True)
    yield "rgb_16", png(deep, RGB, depth=16)
    yield "rgb_one_transparent", png(rgb, RGB, chunks=[(b"tRNS", struct.pack(">HHH", *rgb[3, 4]))])
    yield "rgb_gamma", png(rgb, RGB, chunks=[(b"gAMA", struct.pack(">I", 100000))])
    yield "rgba", png(np.concatenate([rgb, alpha[:, :, None]], axis=2), RGB_ALPHA)
    yield "rgba_16_interlaced", png(np.concatenate([deep, deep[:, :, :1]], axis=2), RGB_ALPHA, depth=16, interlaced=True)
    yield "grey", png(grey, GREY)
    yield "grey_alpha", png(np.stack([grey, alpha], axis=2), GREY_ALPHA)
    for depth in (1, 2, 4):
        yield f"grey_{depth}", png(grey >> (8 - depth), GREY, depth)
        yield f"grey_{depth}_interlaced", png(grey >> (8 - depth), GREY, depth, interlaced=True)
    for depth in (1, 2, 4):
        colors = (b"PLTE", palette[1][:3 << depth])
        yield f"palette_{depth}", png(grey >> (8 - depth), PALETTE, depth, chunks=[colors])
    yield "palette_transparent", png(grey >> 4, PALETTE, chunks=[palette, (b"tRNS", bytes(range(0, 160, 10)))])
    yield "one_pixel", png(rgb[:1, :1], RGB, interlaced=True)


# top, left, height, width, size, mirrored
CROPS = {"whole": (0, 0, 150, 201, 32, 0), "reduced": (13, 20, 120, 90, 32, 1), "enlarged": (140, 190, 10, 11, 24, 0),
         "flat": (149, 0, 1, 201, 16, 1), "same": (50, 60, 32, 32, 32, 0), "one": (7, 8, 1, 1, 5, 0)}
MIDDLES = {"middle": (36, 32), "middle_odd": (37, 32), "middle_enlarged": (171, 32), "middle_all": (20, 20)}  # shorter side, size


def framings(photo):
    for name, (top, left, height, width, size, mirrored) in CROPS.items():
        image = F.resized_crop(photo, top, left, height, width, [size, size])
        yield name, (top, left, height, width, size, mirrored), F.hflip(image) if mirrored else image
    for name, (shorter, size) in MIDDLES.items():
        yield name, (0, 0, *photo.size[::-1], size, -shorter), F.center_crop(F.resize(photo, [shorter]), [size])


def main():
    entries = {}
    tensor = lambda values: torch.from_numpy(np.ascontiguousarray(values))
    for name, jpeg in [*files(), *damaged_files()]:
        entries[f"{name}.jpeg"] = tensor(np.frombuffer(jpeg, np.uint8).copy())
        image = Image.open(io.BytesIO(jpeg)).convert("RGB")
        if name == "photo":
            for framing, numbers, framed in framings(image):
                entries[f"{framing}.box"] = torch.tensor(numbers, dtype=torch.int64)
                entries[f"{framing}.rgb"] = tensor(np.array(framed))
        else:
            entries[f"{name}.rgb"] = tensor(np.array(image))
    for name, file in png_files():
        entries[f"png_{name}.png"] = tensor(np.frombuffer(file, np.uint8).copy())
        entries[f"png_{name}.rgb"] = tensor(np.array(Image.open(io.BytesIO(file)).convert("RGB")))
    versions = {"versions": f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}"}  # one entry: their order is random
    save_file(entries, Path(__file__).parent / "images.safetensors", metadata=versions)


if __name__ == "__main__":
    main()
