package state

// poolMark begins the counted name of a pool. No provider has a model of such a name, so a pool
// never counts with a model.
const poolMark = "\x1fpool:"

// PoolName returns the name under which a pool is counted, beside the names of models.
func PoolName(pool string) string { return poolMark + pool }

// PoolOf returns the pool that is counted under a name, if the name is that of a pool.
func PoolOf(name string) (pool string, is bool) {
	if !IsPool(name) {
		return "", false
	}
	return name[len(poolMark):], true
}

// IsPool reports whether a pool is counted under a name.
func IsPool(name string) bool {
	return len(name) >= len(poolMark) && name[0] == poolMark[0] && name[:len(poolMark)] == poolMark
}
