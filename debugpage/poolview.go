package debugpage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// maxPools is the most pools on the page, and maxNames how many names are told in one place.
	maxPools = 200
	maxNames = 4
)

// poolShown is a pool as it was at a moment.
type poolShown struct {
	ratelimit.PoolState
	models []string // its members
	at     time.Time
}

// takePools returns the pools of a limiter, by name.
func takePools(rl *ratelimit.RateLimiter, at time.Time) (all []poolShown) {
	for name := range rl.Pools() {
		is, ok := rl.ExplainPool(name)
		if members, _ := rl.Pool(name); ok { // it may be gone
			all = append(all, poolShown{is, members.Models, at})
		}
	}
	return all
}

// samePools reports whether two lists of pools show the same.
func samePools(a, b []poolShown) bool {
	return slices.EqualFunc(a, b, func(a, b poolShown) bool {
		return a.Pool == b.Pool && a.InFlight == b.InFlight && a.Waiting == b.Waiting && a.Cause == b.Cause &&
			a.CooldownUntil.Equal(b.CooldownUntil) && a.blocked() == b.blocked() && slices.Equal(a.models, b.models) &&
			slices.EqualFunc(a.Limits, b.Limits, sameLimit) && slices.EqualFunc(a.Budgets, b.Budgets, sameBudget) &&
			sameFound(a.Found, b.Found) && maps.Equal(a.WaitingByClass, b.WaitingByClass)
	})
}

// inUse reports whether there is something to see of the pool.
func (p *poolShown) inUse() bool {
	return p.InFlight|p.Waiting != 0 || p.blocked() || len(p.Budgets) > 0 ||
		slices.ContainsFunc(p.Limits, func(l ratelimit.LimitState) bool { return l.Used|l.External != 0 })
}

// blocked reports whether the pool lets none of its models have one more request. Those that wait
// may wait for their models.
func (p *poolShown) blocked() bool {
	state, _, _ := blockOf(p.Limits, p.Budgets, nil)
	return state != "" || p.CooldownUntil.After(p.at)
}

// poolView is a pool as the templates show it.
type poolView struct {
	Name    string
	Models  string
	Kind    kind
	State   string
	Why     string
	Room    moment
	NoRoom  string
	Limits  []limitView
	Found   []foundView
	Open    int
	Waiting int
	ByClass string
}

// view returns the view of the pool, seen from a moment.
func (p *poolShown) view(now time.Time) poolView {
	v := poolView{
		Name: nameText(p.Pool), Models: namesText(p.models), Open: p.InFlight, Waiting: p.Waiting, ByClass: classText(p.WaitingByClass),
		Limits: limitsOf(p.Limits, p.Budgets, now), Kind: kindFree, State: stateText(ratelimit.DecisionAllowed),
		Found: searches(p.Found, p.InFlight, -1, now),
	}
	state, why, end := blockOf(p.Limits, p.Budgets, nil)
	switch {
	case p.CooldownUntil.After(p.at):
		v.Kind, v.State, v.Why = kindStop, stateText(ratelimit.DecisionCooldown), causeText(p.Cause)
		v.Room = moment{p.CooldownUntil, now}
	case state != "":
		v.Kind, v.State, v.Why, v.Room = end.kind, state, why, moment{end.room, now}
		v.NoRoom = end.noRoom
	}
	return v
}

// renderPools returns the table of the pools, seen from a moment; nothing where there are none.
func renderPools(all []poolShown, now time.Time) string {
	if len(all) == 0 {
		return ""
	}
	var used, idle []poolView
	blocked := 0
	for i := range all {
		p := &all[i]
		switch {
		case len(used)+len(idle) == maxPools:
		case p.blocked():
			used = slices.Insert(used, blocked, p.view(now))
			blocked++
		case p.inUse():
			used = append(used, p.view(now))
		default:
			idle = append(idle, p.view(now))
		}
	}
	var hidden string
	if rest := len(all) - len(used) - len(idle); rest > 0 {
		hidden = counted(rest, "pool")
	}
	return render("pools", map[string]any{
		"Used": used, "Idle": idle, "Idles": counted(len(idle), "idle pool"), "Hidden": hidden,
	})
}

// namesText returns the first of some names.
func namesText(names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), maxNames)] {
		shown = append(shown, nameText(name))
	}
	text := strings.Join(shown, ", ")
	if rest := len(names) - len(shown); rest > 0 {
		text += " and " + number(rest) + " more"
	}
	return text
}

// classText says of which classes the callers in line are; empty where they are of none.
func classText(waiting map[string]int) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(waiting)) {
		if class != "" && len(parts) < maxNames {
			parts = append(parts, number(waiting[class])+" "+nameText(class))
		}
	}
	return strings.Join(parts, ", ")
}
