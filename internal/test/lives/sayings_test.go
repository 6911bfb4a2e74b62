package lives

import (
	"maps"
	"slices"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// say has somebody say anew what seldom changes, or opens the limiter anew.
func (l *life) say() {
	switch l.random.IntN(4) {
	case 0:
		l.sayAccount()
	case 1:
		l.sayClasses()
	case 2:
		l.refuse()
	default:
		if l.alone { // a shared one that is opened anew knows what providers reported, too
			l.reopen()
		}
	}
}

// sayAccount tells the limits of the account, which are below those of the program.
func (l *life) sayAccount() {
	if l.paced { // how those of both are put together is for the tests of quotas
		return
	}
	was, account := l.account, make(map[string]ratelimit.ModelQuota)
	for _, name := range l.own {
		if oneIn(l.random, 3) {
			account[name] = l.drawQuota(l.random, name, 1)
		}
	}
	l.note("account quotas %s", render(account))
	for _, h := range l.houses {
		h.rl.SetAccountQuotas(account)
	}
	l.account = account
	for _, name := range l.own {
		_, had := was[name]
		if _, has := account[name]; had || has {
			l.requote(name)
		}
	}
}

// requote finds the quota that stands for a name: the program's, and what that leaves open of the
// account's. One of the program that limits nothing stays as it is.
func (l *life) requote(name string) {
	q, byProgram := l.program[name]
	below, byAccount := l.account[name]
	switch {
	case !byProgram && !byAccount:
		delete(l.quotas, name)
		l.modelOf(name) // which notes that it is not listed
		l.followAll()
		return
	case !byProgram:
		q = below
	case byAccount && !(&account{quota: q}).unlimited():
		if q.DayZone == "" && q.MaxRPD|q.MaxTPD == 0 && q.MaxTokensPerMonth == 0 && !(&account{quota: q}).limitsSpend() {
			q.DayZone = below.DayZone
		}
		for limit, other := range map[*int]int{
			&q.MaxRPM: below.MaxRPM, &q.MaxTPM: below.MaxTPM, &q.MaxRPD: below.MaxRPD, &q.MaxITPM: below.MaxITPM,
			&q.MaxOTPM: below.MaxOTPM, &q.MaxTPD: below.MaxTPD, &q.MaxInFlight: below.MaxInFlight,
			&q.MaxTokensPerMonth: below.MaxTokensPerMonth,
		} {
			if *limit == 0 {
				*limit = other
			}
		}
		if q.MaxSpendPerDay == 0 {
			q.MaxSpendPerDay = below.MaxSpendPerDay
		}
		if q.MaxSpendPerTenMinutes == 0 {
			q.MaxSpendPerTenMinutes = below.MaxSpendPerTenMinutes
		}
		if q.MaxSpendPerMonth == 0 {
			q.MaxSpendPerMonth = below.MaxSpendPerMonth
		}
	}
	l.quotas[name] = q
	l.followAll()
}

// followAll has all models follow the quotas that stand now.
func (l *life) followAll() {
	for name := range l.models {
		l.modelOf(name)
	}
}

// sayClasses replaces the classes.
func (l *life) sayClasses() {
	if !l.fair {
		return
	}
	classes := drawClasses(l.random)
	l.note("classes %s", render(classes))
	for _, h := range l.houses {
		h.rl.SetClasses(maps.Clone(classes))
	}
	l.cfg.Classes = classes
}

// refuse tells of a refusal by the provider, which matters to quotas that search for limits.
func (l *life) refuse() {
	r := ratelimit.ProviderRefusal{
		Model:   pick(l.random, l.names...),
		Problem: pick(l.random, "rate_limited", "overloaded", "timeout", "daily_quota", "other"),
		SentAt:  l.now.Add(-pick(l.random, 0, time.Second, time.Minute)),
	}
	l.note("refused %s", render(r))
	for _, h := range l.houses {
		h.rl.ObserveRefusal(l.ctx.Context(), r)
	}
}

// reopen closes the limiter and opens another one that goes on with its file. What only a process
// knows is gone: the audit, what providers reported, and the calls in flight, which are settled
// before.
func (l *life) reopen() {
	invalid := func(q ratelimit.ModelQuota) bool { return (&account{quota: q}).invalid() }
	if l.crowd || l.learns || len(l.gone) > 0 || slices.ContainsFunc(slices.Collect(maps.Values(l.program)), invalid) {
		return
	}
	l.allLeave()
	for _, c := range l.calls {
		if !c.settled {
			l.commitThis(c, c.req.PromptTokens, c.req.OutputTokens)
		}
	}
	if slices.ContainsFunc(l.calls, func(c *call) bool { return !c.settled }) {
		return
	}
	l.note("reopen")
	cfg := l.copies()
	cfg.Quotas, cfg.Prices = maps.Clone(l.program), maps.Clone(l.prices)
	if cfg.Pools != nil {
		cfg.Pools = make(map[string]ratelimit.Pool)
	}
	for name, a := range l.pools {
		cfg.Pools[name] = ratelimit.Pool{Models: l.members[name], Quota: a.quota}
	}
	for _, h := range l.houses {
		if err := h.reopen(cfg); err != nil {
			l.fail("%s: %v", h.kind, err)
		}
	}
	l.calls = nil
	for _, accounts := range []map[string]*account{l.models, l.pools} {
		for _, a := range accounts {
			a.audit, a.others, a.dayEnded = ratelimit.AuditEntry{}, [dimensions]report{}, time.Time{}
			a.paysSince, a.monthCountsSince = time.Time{}, time.Time{} // no call is open
		}
	}
}

// reopen saves the state, and has another limiter go on with it.
func (h *house) reopen(cfg ratelimit.Config) error {
	if err := h.rl.Persist(); err != nil {
		return err
	}
	if err := h.close(); err != nil {
		return err
	}
	if err := h.open(cfg); err != nil {
		return err
	}
	return h.rl.Load()
}
