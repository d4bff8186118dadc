"""Turn the bytes of any file into lines and objects: walk, identity, tail, parse."""
