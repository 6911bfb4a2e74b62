package ratelimit

import (
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// observer tells a limiter what its engine does by itself.
type observer struct{ rl *RateLimiter }

// Shown puts the usage of an account into State.
func (o observer) Shown(a *account.Account) {
	rl := o.rl
	rl.localLocked(a)
	if a.IsPool() {
		return
	}
	if rl.State == nil {
		rl.State = make(map[string]*UsageStats)
		rl.seen.state = rl.State
	}
	rl.State[a.Name] = entryOf(a.Usage())
}

// Hidden takes the usage of an account out of State.
func (o observer) Hidden(a *account.Account, evicted bool) {
	if stats := o.rl.State[a.Name]; stats != nil && shownBy(stats) == a.Usage() {
		delete(o.rl.State, a.Name)
	}
	if evicted && o.isOurs() {
		o.rl.teller.evictedLocked(a.Name)
	}
}

// Requoted puts a quota into Quotas, or takes it out.
func (o observer) Requoted(c catalog.Change) {
	rl := o.rl
	switch {
	case state.IsPool(c.Name):
	case !c.Has:
		delete(rl.Quotas, c.Name)
	default:
		if rl.Quotas == nil {
			rl.Quotas = make(map[string]ModelQuota)
		}
		rl.Quotas[c.Name] = ModelQuota(c.Is)
	}
	rl.seen.quotas, rl.seen.named = rl.Quotas, len(rl.Quotas)
	if c.Changed() {
		rl.teller.requotedLocked(c.Name, rl.sayer, ModelQuota(c.Is), c.Has)
	}
}

// Cooled tells of a cooldown.
func (o observer) Cooled(a *account.Account, asked string) {
	if o.isOurs() {
		o.rl.teller.cooledLocked(a, asked)
	}
}

// isOurs reports whether this process has brought about what is told.
func (o observer) isOurs() bool { return o.rl.shared == nil || o.rl.shared.own }

// Ended ends a reservation that nobody has settled in time.
func (o observer) Ended(c *account.Call, how account.How, now account.Now) {
	if o.rl.shared != nil {
		o.rl.shared.expiredLocked(c.ID, how, now)
		return
	}
	o.rl.teller.postRLocked(o.rl.endedLocked(c, how, c.Tokens, now))
}
