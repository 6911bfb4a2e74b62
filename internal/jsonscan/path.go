package llmhttp

// keyPath is the keys that lead to where a scanner is. Arrays have no part in it.
type keyPath struct {
	buf     [maxKeys*(maxKey+1) - 1]byte
	size    int
	objects int          // objects that are open
	starts  [maxKeys]int // where the path of the object at each level ends, and its keys begin
	// unnamed is the outermost level, from 1, whose key cannot be named; zero if there is none.
	unnamed int
}

func (k *keyPath) reset() { k.size, k.objects, k.unnamed = 0, 0, 0 }

// bytes returns the path, or nil if it has a key that cannot be named.
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

// back takes the key of the innermost object away.
func (k *keyPath) back() {
	if k.unnamed == k.objects {
		k.unnamed = 0
	}
	if k.objects <= maxKeys {
		k.size = k.starts[k.objects-1]
	}
}

// key sets the key of the innermost object.
func (k *keyPath) key(key []byte, fit bool) {
	k.back()
	if k.unnamed != 0 {
		return
	}
	if !fit || k.objects > maxKeys {
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
