"""A real sshd on loopback with keys and configuration of its own, and a wire to it that can be cut."""
