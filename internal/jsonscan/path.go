package jsonscan

// keyPath is the path of keys to the current position. Arrays add nothing to it.
type keyPath struct {
	buf     [maxKeys*(maxKey+1) - 1]byte
	size    int
	objects int          // open objects
	starts  [maxKeys]int // per level, the length of the path to the object
	// unnamed is the outermost level, from 1, whose key has no place in a path; zero if there is
	// none.
	unnamed int
}

func (k *keyPath) reset() { k.size, k.objects, k.unnamed = 0, 0, 0 }

// bytes returns the path, or nil if one of its keys has no place in a path.
func (k *keyPath) bytes() []byte {
	if k.unnamed != 0 {
		return nil
	}
	return k.buf[:k.size:k.size]
}

func (k *keyPath) open() {
	if k.objects < maxKeys {
		k.starts[k.objects] = k.size
	}
	k.objects++
}

func (k *keyPath) close() {
	k.back()
	k.objects--
}

// back removes the key of the innermost object.
func (k *keyPath) back() {
	if k.unnamed == k.objects {
		k.unnamed = 0
	}
	if k.objects <= maxKeys {
		k.size = k.starts[k.objects-1]
	}
}

// key sets the key of the innermost object.
func (k *keyPath) key(key []byte) {
	k.back()
	if k.unnamed != 0 {
		return
	}
	if k.objects > maxKeys {
		k.unnamed = k.objects
		return
	}
	size := k.size
	if k.objects > 1 {
		k.buf[size] = '.'
		size++
	}
	buf := k.buf[size:]
	for i, c := range key {
		if c == '.' {
			k.unnamed = k.objects
			return
		}
		buf[i] = c
	}
	k.size = size + len(key)
}

// skipKey sets a key of the innermost object that has no place in a path.
func (k *keyPath) skipKey() {
	k.back()
	if k.unnamed == 0 {
		k.unnamed = k.objects
	}
}
