package lives

import (
	"slices"
	"strings"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// verdict is what an account says to a demand.
type verdict struct {
	allowed, never bool
	code           ratelimit.DecisionCode
	wait           time.Duration // until time alone lets it pass
	slots          bool          // a call in flight has to end
	retry          time.Duration
}

// part is what requests ask of one account.
type part struct {
	account *account
	model   string // the first request that asks
	demand  demand
	verdict verdict
}

var reportCodes = [dimensions]ratelimit.DecisionCode{
	ratelimit.DecisionRPDLimit, ratelimit.DecisionTPDLimit, ratelimit.DecisionRPMLimit,
	ratelimit.DecisionITPMLimit, ratelimit.DecisionOTPMLimit, ratelimit.DecisionTPMLimit,
}

func limitsOf(q *ratelimit.ModelQuota) [dimensions]int {
	return [dimensions]int{q.MaxRPD, q.MaxTPD, q.MaxRPM, q.MaxITPM, q.MaxOTPM, q.MaxTPM}
}

// denied returns the codes of the limits that deny at a time, in the order in which they are named.
func (a *account) denied(at time.Time, d demand) (codes []ratelimit.DecisionCode) {
	if a.cool.After(at) {
		codes = append(codes, ratelimit.DecisionCooldown)
	}
	if limit := a.quota.MaxInFlight; limit > 0 && a.inFlight+d.requests > limit {
		codes = append(codes, ratelimit.DecisionInFlightLimit)
	}
	used, more := a.usedOf(at), d.of()
	for of, limit := range limitsOf(&a.quota) {
		if of == perMinute { // money comes between the limits of the day and of the minute
			codes = append(codes, a.deniedSpend(at, d)...)
			codes = append(codes, a.deniedMonth(at, d)...)
		}
		if limit > 0 && plus(plus(used[of], more[of]), a.external(of, at)) > limit {
			codes = append(codes, reportCodes[of])
		}
	}
	return codes
}

func (a *account) deniedSpend(at time.Time, d demand) (codes []ratelimit.DecisionCode) {
	q := a.quota
	if d.unpriced && a.limitsSpend() {
		codes = append(codes, ratelimit.DecisionUnpriced)
	}
	day, month := a.spent(at)
	if q.MaxSpendPerDay > 0 && day.Add(d.money) > q.MaxSpendPerDay ||
		q.MaxSpendPerMonth > 0 && month.Add(d.money) > q.MaxSpendPerMonth ||
		q.MaxSpendPerTenMinutes > 0 && a.recent(at).Add(d.money) > q.MaxSpendPerTenMinutes {
		codes = append(codes, ratelimit.DecisionSpendLimit)
	}
	return codes
}

func (a *account) limitsSpend() bool {
	return a.quota.MaxSpendPerDay|a.quota.MaxSpendPerMonth|a.quota.MaxSpendPerTenMinutes != 0
}

// tooLarge reports whether a demand fits not even an empty account.
func (a *account) tooLarge(d demand) bool {
	return len((&account{quota: a.quota}).denied(time.Time{}, d)) > 0
}

func (a *account) unlimited() bool {
	q := a.quota
	q.DayZone = ""
	return q == ratelimit.ModelQuota{}
}

func (a *account) invalid() bool {
	q := a.quota
	return min(q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight) < 0
}

// judge says whether a demand passes now, and else when.
func (a *account) judge(now time.Time, d demand) verdict {
	if d.input < 0 || d.output < 0 {
		return verdict{never: true, code: ratelimit.DecisionInvalidTokens}
	}
	if a.known && a.invalid() {
		return verdict{never: true, code: ratelimit.DecisionInvalidQuota}
	}
	codes := a.denied(now, d)
	switch {
	case len(codes) > 0 && a.tooLarge(d):
		return verdict{never: true, code: codes[0]}
	case len(codes) > 0:
		v := verdict{code: codes[0], slots: slices.Contains(codes, ratelimit.DecisionInFlightLimit)}
		if v.wait = a.passesIn(now, d); v.code == ratelimit.DecisionCooldown || !v.slots {
			v.retry = v.wait
		}
		return v
	case !a.known:
		return verdict{allowed: true, code: ratelimit.DecisionUnknownModel}
	case a.unlimited():
		return verdict{allowed: true, code: ratelimit.DecisionUnlimited}
	}
	return verdict{allowed: true, code: ratelimit.DecisionAllowed}
}

// passesIn tries all times at which anything ends. Calls in flight do not count.
func (a *account) passesIn(now time.Time, d demand) time.Duration {
	passes := func(at time.Time) bool {
		codes := a.denied(at, d)
		return len(codes) == 0 || len(codes) == 1 && codes[0] == ratelimit.DecisionInFlightLimit
	}
	if passes(now) {
		return 0
	}
	times := []time.Time{a.cool, a.monthEnd}
	for _, p := range a.paid {
		times = append(times, p.at.Add(a.span+9*time.Minute+1))
	}
	for _, c := range a.charges {
		times = append(times, c.at.Add(a.span+1))
	}
	for _, r := range a.others {
		times = append(times, r.until)
	}
	if a.day != nil {
		times = append(times, a.day.end)
	}
	for _, p := range []*period{a.spentDay, a.spentMonth} {
		if p != nil {
			times = append(times, p.end)
		}
	}
	var first time.Time
	for _, at := range times {
		if at.After(now) && (first.IsZero() || at.Before(first)) && passes(at) {
			first = at
		}
	}
	if first.IsZero() {
		panic("the oracle finds no time at which the demand passes")
	}
	return first.Sub(now)
}

// matches says whether a pattern covers a name, by trying all that "*" may stand for.
func matches(pattern, name string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	for i := len(head); i <= len(name); i++ {
		if matches(tail, name[i:]) {
			return true
		}
	}
	return false
}

// counted returns the name under which a model is counted.
func (l *life) counted(model string) string {
	if name, ok := l.cfg.Aliases[model]; ok {
		return name
	}
	if model == version && l.cfg.MatchVersions {
		return "open"
	}
	return model
}

// modelOf returns the account of a model, as of the quotas that stand now.
func (l *life) modelOf(model string) *account {
	name := l.counted(model)
	a := l.models[name]
	if a == nil {
		a = &account{name: name, span: time.Minute + l.cfg.Margin}
		l.models[name] = a
	}
	a.quota, a.known = l.quotas[name]
	if !a.known {
		a.unlisted = true // and was without a place for some time
		best := ""
		for pattern := range l.quotas { // the longest pattern, and "*" last
			if strings.Contains(pattern, "*") && matches(pattern, name) && len(pattern) > len(best) {
				best = pattern
			}
		}
		if best != "" {
			a.quota, a.known = l.quotas[best], true
		}
	}
	a.follow(l.now)
	return a
}

// poolsOf returns the accounts of the pools of a model, by name.
func (l *life) poolsOf(model string) (in []*account) {
	for name, members := range l.members {
		if slices.ContainsFunc(members, func(m string) bool { return matches(m, model) || matches(m, l.counted(model)) }) {
			in = append(in, l.pools[name])
		}
	}
	slices.SortFunc(in, func(a, b *account) int { return strings.Compare(a.name, b.name) })
	return in
}

// accountsOf returns the account of a model, and those of its pools.
func (l *life) accountsOf(model string) []*account {
	return append([]*account{l.modelOf(model)}, l.poolsOf(model)...)
}

// priceOf returns the price of a model: its own, or that of the longest pattern.
func (l *life) priceOf(model string) (price money.Price, ok bool) {
	for _, name := range []string{l.counted(model), model} {
		if price, ok = l.prices[name]; ok {
			return price, true
		}
	}
	best := ""
	for pattern := range l.prices {
		if strings.Contains(pattern, "*") && len(pattern) > len(best) && matches(pattern, l.counted(model)) {
			best = pattern
		}
	}
	price, ok = l.prices[best]
	return price, ok
}

// most returns the most that a request can cost.
func (l *life) most(req ratelimit.Request) money.Amount {
	price, _ := l.priceOf(req.Model)
	return price.MaxCost(req.PromptTokens, max(req.OutputTokens, req.BilledOutput))
}

// parts returns what requests ask of each account, and what that says.
func (l *life) parts(reqs []ratelimit.Request) (parts []*part) {
	find := func(model string, a *account) *part {
		for _, p := range parts {
			if p.account == a {
				return p
			}
		}
		parts = append(parts, &part{account: a, model: model})
		return parts[len(parts)-1]
	}
	for _, req := range reqs {
		var of []*part
		for _, a := range l.accountsOf(req.Model) {
			of = append(of, find(req.Model, a))
		}
		_, priced := l.priceOf(req.Model)
		for _, p := range of {
			d := &p.demand
			d.requests++
			d.money = d.money.Add(l.most(req))
			d.unpriced = d.unpriced || !priced && l.cfg.Unpriced == ratelimit.UnpricedDeny
			if d.input < 0 || min(req.PromptTokens, req.OutputTokens) < 0 {
				d.input = -1
			} else {
				d.input, d.output = plus(d.input, req.PromptTokens), plus(d.output, req.OutputTokens)
			}
		}
	}
	for _, p := range parts {
		p.verdict = p.account.judge(l.now, p.demand)
	}
	return parts
}

// whole is the verdict on requests that pass together.
type whole struct {
	allowed, never bool
	retry          time.Duration
	wait           time.Duration // until the limits that end with time let them pass
	slots          bool          // some wait for a call in flight to end
}

// together returns what all accounts together say.
func together(parts []*part) (all whole) {
	all.allowed = true
	if len(parts) == 0 {
		return all
	}
	// A cooldown of a single model is there to be waited for, whatever comes then.
	single := !slices.ContainsFunc(parts[1:], func(p *part) bool { return !p.account.pool })
	cools := single && parts[0].verdict.code == ratelimit.DecisionCooldown
	slots := false
	for _, p := range parts {
		v := p.verdict
		all.allowed, all.never = all.allowed && v.allowed, all.never || v.never
		all.wait, all.slots = max(all.wait, v.wait), all.slots || v.slots
		if cools && v.code == ratelimit.DecisionInFlightLimit {
			all.retry = max(all.retry, v.wait)
			continue
		}
		slots, all.retry = slots || v.code == ratelimit.DecisionInFlightLimit, max(all.retry, v.retry)
	}
	if all.never || slots && len(parts) > 1 {
		all.retry = 0
	}
	return all
}
