"""What keeps private things private: masking secrets."""
