package state

// poolMark begins the counted name of a pool, and modelMark that of a model whose name begins with
// either: so a caller can name no pool by the name of a model.
const (
	modelMark = "\x1f"
	poolMark  = modelMark + "pool:"
)

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

// ModelName returns the name under which a model is counted that is called by a name: the same,
// unless a pool is counted under it.
func ModelName(name string) string {
	if IsPool(name) {
		return modelMark + name
	}
	return name
}
