package ratelimit

import "dappco.re/go/core/go-ratelimit/internal/state"

// QuotaFor returns the quota by which this limiter limits model, and its name in Quotas; ok is
// false where there is none. It looks for the exact name first; then, with Config.MatchVersions,
// for the longest name that model extends: by ":" or "@" and any text, or by "-" and a date or
// version (YYYY-MM-DD, YYYYMMDD, MMDD, three digits, "latest", "v" and a number), also after
// removing "models/", "publishers/…/models/" and one leading "provider/"; then for the longest
// pattern that covers model, in which "*" stands for any run of bytes; then for the quota named
// "*". Config.Aliases apply before. The methods of the limiter resolve names in the same way.
//
// A quota that is all zero is returned as well, although it limits nothing. Limits of a pool are
// not looked at. QuotaFor is safe for concurrent use.
func (rl *RateLimiter) QuotaFor(model string) (name string, quota ModelQuota, ok bool) {
	rl.shared.freshen()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	counted := rl.adoptLocked(model, rl.nowLocked())
	name, q, ok := rl.engine.Catalog.Cover(counted)
	if !ok {
		return "", ModelQuota{}, false
	}
	return name, ModelQuota(q), true
}

// CountedAs returns the name under which the usage of model is counted: model itself, or what it
// stands for by Config.Aliases and Config.MatchVersions. It is safe for concurrent use.
func (rl *RateLimiter) CountedAs(model string) string {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	return rl.adoptLocked(model, rl.nowLocked())
}

// nameRLocked returns the name under which a model is counted.
func (rl *RateLimiter) nameRLocked(model string) string {
	if rl.naming.Aliases != nil || rl.naming.MatchVersions || state.IsMarked(model) {
		return rl.countedRLocked(model)
	}
	return model // short enough to be inlined
}

func (rl *RateLimiter) countedRLocked(model string) string {
	if rl.naming.Aliases != nil || rl.naming.MatchVersions {
		model = rl.naming.Counted(model, rl.engine.Catalog.IsListed)
	}
	return state.ModelName(model)
}
