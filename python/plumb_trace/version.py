"""plumb's version; its trace's producer."""
VERSION = "0.1.0"
