"""Learned agents. They need torch: install the extra `rl`. Nothing else imports them."""
