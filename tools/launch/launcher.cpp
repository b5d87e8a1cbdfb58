// Placeholder: what `launch` does comes here.
