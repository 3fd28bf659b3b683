"""The host side of gpuferry: build, push, pull and parse. Never imports torch."""
