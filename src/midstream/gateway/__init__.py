"""The gateway: any client's wire in, any model's wire out."""
