"""The figures of `refactx serve`."""
