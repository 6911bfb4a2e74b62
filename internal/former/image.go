package former

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Image returns the image of the state that the content is, as of its moment. Content is of no use
// afterwards.
func (c *Content) Image(seed uint64) ([]byte, error) {
	if c.Now.Instant <= 0 || c.Now.Wall <= 0 {
		return nil, fmt.Errorf("the clock shows %v", c.Now.Time())
	}
	classes, err := c.classes()
	if err != nil {
		return nil, err
	}
	e := engine.New(seed, nil)
	c.Span = min(max(c.Span, account.Minute), longestSpan)
	e.Keep(c.Span)
	t := taking{Content: c, engine: e, fleet: fleet.New(e), reserves: make(map[string]bool), ago: math.MaxInt64}
	t.takeProcesses()
	t.engine.Do(engine.SetClasses{Classes: classes}, c.Now)
	for name, class := range classes {
		t.reserves[name] = class.ReservePercent > 0
	}
	t.takeQuotas()
	t.takeFound()
	t.takeUsage()
	t.takePools()
	t.takeRest()
	t.end()
	image := t.fleet.AppendImage(nil)
	if _, err := fleet.Read(image, nil); err != nil {
		return nil, fmt.Errorf("what is there makes no state: %w", err)
	}
	return image, nil
}

// longestSpan is the longest that a charge of the minute counts in this version.
const longestSpan = int64(time.Hour)

func (c *Content) classes() (map[string]state.Class, error) {
	if c.Classes == "" {
		return nil, nil
	}
	classes, err := state.ParseClasses(c.Classes)
	if err != nil {
		return nil, fmt.Errorf("classes: %w", err)
	}
	return classes, nil
}

// taking is a content that becomes the state of an engine and a fleet.
type taking struct {
	*Content
	engine   *engine.Engine
	fleet    *fleet.State
	reserves map[string]bool // the classes that have one
	ago      int64           // since the last entry
}

// takeQuotas has the program and the account of the new log say what they said. A file of one
// limiter is one that a process has read, with all origins that are in it.
func (t *taking) takeQuotas() {
	if t.Usage != nil {
		t.engine.Do(engine.Loaded{File: catalog.File{Quotas: t.Quotas, Said: t.Said, Pools: t.Pools}, Learns: true}, t.Now)
		t.engine.TellZones(state.BoundsOf, t.Now) // one that is not known here is left to others
		return
	}
	accounts, file := make(map[string]state.Quota), catalog.File{Quotas: make(map[string]state.Quota), Said: make(map[string]state.Said)}
	for _, name := range slices.Sorted(maps.Keys(t.Quotas)) {
		from := t.Said[name]
		said := catalog.SharedSaying(t.Quotas[name], from)
		if q, ok := said.Get(state.Account); ok {
			accounts[name] = q
		}
		if q, ok := said.Get(state.Program); ok {
			t.engine.Do(engine.SetQuota{Counted: name, Quota: q}, t.Now)
		}
		if profile := from.Only(state.Profile); !profile.IsEmpty() {
			file.Quotas[name], file.Said[name] = catalog.QuotaOf(profile), profile
		}
	}
	t.engine.Do(engine.SetAccount{Quotas: accounts}, t.Now)
	t.engine.Do(engine.Loaded{File: file}, t.Now)
	t.engine.TellZones(state.BoundsOf, t.Now) // one that is not known here is left to others
}

// takePools says who is in the pools. It comes behind the charges: each event has charged one model
// or pool alone.
func (t *taking) takePools() {
	if t.Usage != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(t.Pools)) {
		said := catalog.SharedSaying(t.Quotas[name], t.Said[name])
		if q, ok := said.Get(state.Program); ok {
			t.engine.Do(engine.SetPool{Counted: name, Models: t.Pools[name], Quota: q}, t.Now)
			continue
		}
		t.engine.Do(engine.Loaded{File: catalog.File{Pools: map[string][]string{name: t.Pools[name]}}}, t.Now)
	}
}

// takeFound has searches for limits go on. It comes before the charges, with which they would begin
// anew.
func (t *taking) takeFound() {
	for _, name := range slices.Sorted(maps.Keys(t.Found)) {
		known := t.Found[name]
		known.Told = known.Told && t.Usage != nil // of a shared one each process learns that anew
		t.engine.LoadFound(name, known, t.Now)
	}
}

// takeRest takes over what lies beside usage.
func (t *taking) takeRest() {
	for _, name := range slices.Sorted(maps.Keys(t.Cooldowns)) {
		is := t.Cooldowns[name]
		t.engine.LoadCooldown(name, clock.UnixNano(is.Until), state.KeptCause(is.Cause), t.Now)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Spend)) {
		if is := t.Spend[name]; !is.IsOver(t.Now.Wall) {
			t.engine.LoadSpend(name, is, state.Spend{}, t.Now)
		}
	}
}
