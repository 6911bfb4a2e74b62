// Package verdict decides whether requests may be sent: from accounts, from what is asked of them
// and from a moment. It changes nothing, and every way to ask uses the same judge. It also says in
// words why a model waits (Facts).
package verdict

import (
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// The codes of decisions that no limit of the table gives.
const (
	Allowed       = "ok"
	UnknownModel  = "unknown_model"
	Unlimited     = "unlimited"
	InvalidTokens = "invalid_tokens"
	InvalidQuota  = "invalid_quota"
	TooManyModels = "too_many_models"
	Queued        = "queued"
	Cooldown      = "cooldown"
)

// Verdict answers whether requests may be sent, together. The zero value is none yet.
type Verdict struct {
	Allowed    bool
	Never      bool // waiting does not help
	OverBudget bool // spend is among what denies
	Keeps      bool // a reserve of another class is among what denies

	Code   string
	Reason string
	Cause  string        // of a cooldown
	Retry  time.Duration // after which the same passes; zero where no time says that

	Item int // which of the items denied, or was the only one

	wait  int64 // how long the limits deny that end with time
	own   int64 // of that, those of the models alone
	event bool  // some are denied until something ends that no time tells
}

// Wait returns how long the limits deny that end with time, in nanoseconds.
func (v *Verdict) Wait() int64 { return v.wait }

// OwnWait is Wait for the models alone, without their pools.
func (v *Verdict) OwnWait() int64 { return v.own }

// Item is what some requests ask of one account, and what came of that. The items of models come
// before those of pools, which are sorted by name.
type Item struct {
	Account *account.Account
	Ask     account.Ask
	Asked   string // the model, as the first of the requests calls it; for a pool, its first member
	Request int    // that first of the requests
	Member  int    // for a pool: the item of its first member

	Full    bool  // there is no place for the model's usage
	PlaceIn int64 // and how long there will be none; 0 where no time says that
	Deny    bool  // a model without a quota is denied
	Nearest string

	Code  string // the decision on it alone,
	Never bool
	Wait  int64 // and how long the limits deny that end with time
	Stays bool  // reserves of other classes keep it out
}

// Passes reports whether the account of the item lets the requests pass.
func (i *Item) Passes() bool {
	return i.Code == Allowed || i.Code == Unlimited || i.Code == UnknownModel && !i.Never
}

// Judge decides on items that are to pass together, as if nobody waited.
func Judge(items []Item, reserves []account.Reserve, now account.Now) (v Verdict) {
	if len(items) == 1 {
		items[0].decide(&v, reserves, now)
		v.own = v.wait
		return v
	}
	v = Verdict{Allowed: true, Code: Allowed, Reason: within}
	models := 0
	for models < len(items) && !items[models].Account.IsPool() {
		models++
	}
	for i := range items {
		var on Verdict
		items[i].decide(&on, reserves, now)
		on.Item = i
		if items[i].Account.IsPool() {
			v.mergePool(&on, items, models == 1)
		} else {
			v.merge(&on, items, models == 1)
		}
	}
	return v
}

// Pass returns the decision that requests of one model pass, of which Admits is sure.
func Pass(a *account.Account) (v Verdict) {
	v.Allowed = true
	v.Code, v.Reason = PassedBy(a)
	return v
}

// PassedBy returns the code and the reason of Pass.
func PassedBy(a *account.Account) (code, reason string) {
	if a.Has(account.Unlimited) {
		return Unlimited, unlimited
	}
	return Allowed, within
}

const unlimited = "the model is unlimited"

const within = "within the quota"

// merge takes in the decision on one model. The first that denies names the denial, or the first
// that will never pass; the longest wait counts.
func (v *Verdict) merge(on *Verdict, items []Item, alone bool) {
	if v.Never {
		return
	}
	isLonger := on.wait > v.wait
	wait, event := max(v.wait, on.wait), v.event || on.event
	overBudget, keeps := v.OverBudget || on.OverBudget, v.Keeps || on.Keeps
	switch {
	case on.Never:
		wait = 0
		*v = *on
	case v.Allowed && (!on.Allowed || alone):
		*v = *on
	case isLonger && !on.Allowed:
		v.Reason = errtext.Longest(v.Reason, "model "+strconv.Quote(errtext.Clip(items[on.Item].Asked))+": ", on.Reason)
	}
	v.OverBudget, v.Keeps = overBudget, keeps
	v.wait, v.own, v.event = wait, wait, event
	if v.Retry = time.Duration(wait); event {
		v.Retry = 0
	}
}

// mergePool is merge for a pool, after the models.
func (v *Verdict) mergePool(on *Verdict, items []Item, alone bool) {
	if v.Never {
		return
	}
	isLonger, cools := on.wait > v.wait, alone && v.Code == Cooldown
	v.wait, v.event = max(v.wait, on.wait), v.event || on.event
	if on.Allowed {
		return
	}
	pool := &items[on.Item]
	named := false
	switch {
	case v.Allowed:
		v.Allowed, v.Code, v.Reason, v.Never, v.Cause = false, on.Code, pool.says(on.Reason), on.Never, on.Cause
		v.Item, named = on.Item, true
	case on.Never:
		v.Never, v.Reason = true, pool.says(on.Reason)
	}
	v.OverBudget, v.Keeps = v.OverBudget || on.OverBudget, v.Keeps || on.Keeps
	if v.Retry = time.Duration(v.wait); v.event && !cools || v.Never {
		v.Retry = 0
	}
	if isLonger && !named && !v.Never && (v.Retry > 0 || on.OverBudget) {
		v.Reason = errtext.Longest(v.Reason, pool.label(), on.Reason)
	}
	if v.Never {
		v.wait = 0
	}
}

// label returns the beginning of a reason that is a pool's.
func (i *Item) label() string {
	name, _ := state.PoolOf(i.Account.Name)
	return "the pool " + strconv.Quote(errtext.Clip(name)) + ": "
}

func (i *Item) says(reason string) string { return i.label() + reason }

// Queue denies requests that would go before others that wait for the account of an item, unless
// they can never pass anyhow.
func (v *Verdict) Queue(items []Item, at int) {
	switch i := &items[at]; {
	case v.Never:
	case !i.Account.IsPool():
		v.queue("others wait for the model and come first", at)
	case v.Allowed || v.Item == at:
		v.queue(i.says("others wait for its models and come first"), at)
	}
}

func (v *Verdict) queue(reason string, at int) {
	v.Allowed, v.Cause = false, ""
	v.Code, v.Reason, v.Item = Queued, reason, at
}

// OpensBefore reports whether a denial ends before another one, as far as time tells. One that
// never ends is after all.
func (v *Verdict) OpensBefore(other *Verdict) bool {
	switch {
	case v.Retry > 0 && other.Retry > 0:
		return v.Retry < other.Retry
	case v.Retry > 0:
		return true
	}
	return other.Retry == 0 && other.Never && !v.Never
}
