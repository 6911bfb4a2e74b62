package engine

import "dappco.re/go/core/go-ratelimit/internal/account"

// kind is what the engine may keep for a model beside its usage: a cooldown, a report, spend or a
// search. Models without a quota of their own have room for as many of each kind as there are
// places; for cooldowns and reports, those of models with a quota take of that room, too.
type kind int

const (
	cooling kind = iota
	reported
	spending
	searching
	kinds
)

// has reports whether an account has something of a kind that lasts.
func (k kind) has(a *account.Account, now account.Now) bool {
	switch k {
	case cooling:
		return a.CoolUntil > now.Wall
	case reported:
		return a.Reports != nil && a.Reports.Expire(now.Instant, now.Wall)
	case searching:
		return a.Found.HasBegun()
	default:
		return !a.Spend.IsOver(now.Wall) || a.Month.Lasts(now) != 0
	}
}

// hasRoom reports whether one more model may have something of a kind. It counts those that last
// where there may be too many.
func (e *Engine) hasRoom(k kind, now account.Now) bool {
	if len(e.accounts) < e.places.most {
		return true
	}
	n := 0
	for _, a := range e.accounts {
		if k.has(a, now) && (k < spending || !e.Catalog.IsListed(a.Name)) {
			n++
		}
	}
	return n < e.places.most
}

// Tidy drops what has expired of an account, which decides nothing.
func (e *Engine) Tidy(a *account.Account, now account.Now) {
	a.Refresh(now, e.span)
	searches := !a.Listed && a.Found.HasBegun() // for as long as nobody needs its place
	if !searches {
		e.hideEmpty(a, now)
	}
	if a.CoolUntil <= now.Wall {
		a.Cool(0, "")
	}
	if a.Reports != nil && !a.Reports.Expire(now.Instant, now.Wall) {
		a.Report(nil)
	}
	if !searches {
		e.drop(a, now)
	}
}

// keepsUse reports whether an account keeps who asks for it, whether or not somebody has looked at
// it and dropped what had expired.
func (e *Engine) keepsUse(a *account.Account, now account.Now) bool {
	return a.Listed || a.IsPool() || keepsPlace(a) || a.IsShown() && (!a.IsIdle(now, e.span) || e.isAsked(a, now))
}

// hideEmpty forgets the usage of an account where there is none.
func (e *Engine) hideEmpty(a *account.Account, now account.Now) {
	if a.IsShown() && e.isEmpty(a, now) {
		e.hide(a, false)
	}
}
