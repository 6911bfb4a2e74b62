package explain

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/cooldown"
)

// Pool is the state of a pool of the model.
type Pool struct {
	Name          string
	Limits        []Limit
	Waiting       int // callers
	CooldownUntil time.Time
	Cause         string // of the cooldown
}

// pool is the lines of a pool: one for each limit.
func (w *lines) pool(p *Pool) {
	name := fmt.Sprintf("pool %q", p.Name)
	for i := range p.Limits {
		w.add("%s: %s", name, w.used(&p.Limits[i]))
	}
	if len(p.Limits) == 0 {
		w.add("%s: no limits", name)
	}
	if p.Waiting > 0 {
		w.add("%s: %s in line", name, counted(p.Waiting, "caller"))
	}
	if p.CooldownUntil.After(w.facts.At) {
		w.add("%s: cooldown until %s, in %s: %s", name, w.time(p.CooldownUntil),
			duration(p.CooldownUntil.Sub(w.facts.At)), cooldown.Said(p.Cause))
	}
}
