package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Pool is the state of a pool of the model.
type Pool struct {
	Name string
	Use
}

// pool is the lines of a pool: one for each limit.
func (w *lines) pool(p *Pool) {
	name, before := fmt.Sprintf("pool %q: ", p.Name), len(w.text)
	for i := range p.Limits {
		w.add("%s%s", name, w.used(&p.Limits[i]))
	}
	for _, b := range p.Budgets {
		w.add("%s%s", name, w.spent(b))
	}
	if p.Found != nil {
		w.found(p.Found, p.InFlight, name)
	}
	if len(w.text) == before {
		w.add("%sno limits", name)
	}
	if p.Waiting > 0 {
		w.add("%s%s%s in line", name, counted(p.Waiting, "caller"), p.byClass())
	}
	if p.CooldownUntil.After(w.facts.At) {
		w.add("%scooldown until %s, in %s: %s", name, w.time(p.CooldownUntil),
			duration(p.CooldownUntil.Sub(w.facts.At)), state.CooldownSaid(p.Cause))
	}
}

// byClass says of which classes the callers in line are; empty where they are of none.
func (u *Use) byClass() string {
	var classes []string
	rest := u.Waiting
	for _, class := range slices.Sorted(maps.Keys(u.WaitingByClass)) {
		if n := u.WaitingByClass[class]; class != "" {
			classes = append(classes, fmt.Sprintf("%d of %q", n, class))
			rest -= n
		}
	}
	switch {
	case classes == nil:
		return ""
	case rest > 0:
		classes = append(classes, fmt.Sprintf("%d of no class", rest))
	}
	return " (" + strings.Join(classes, ", ") + ")"
}
