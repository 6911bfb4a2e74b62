//go:build !nosqlite

package sqlitelog

import (
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// content is the whole content of the file.
type content struct {
	sqlitestate.Models
	events []*sharedlog.Event
	leases []lease
	facts  facts
}

// readContent reads the whole file, within a transaction. The days are those after the last
// event.
func (r rows) readContent() (*content, error) {
	var c content
	var err error
	if c.Models, err = r.ReadModels(); err != nil {
		return nil, err
	}
	if c.facts, err = r.readFacts(); err != nil {
		return nil, err
	}
	if c.leases, err = r.readLeases(); err != nil {
		return nil, err
	}
	if c.events, _, err = r.eventsAfter(-1); err != nil {
		return nil, err
	}
	// The last event is never deleted, so that the places behind it are known.
	if folded := c.facts.number(factFolded); folded > c.last() {
		return nil, sqlitestate.Damaged("facts: the days are those after event %d, which is not there yet", folded)
	}
	c.foldDays()
	c.foldSpend()
	return &c, nil
}

// last returns the place of the last event; 0 if there is none.
func (c *content) last() int64 {
	if len(c.events) == 0 {
		return 0
	}
	return c.events[len(c.events)-1].Seq
}

// foldDays brings the days of the table daily up to the last event.
func (c *content) foldDays() {
	folded := c.facts.number(factFolded)
	for _, e := range c.events {
		switch {
		case e.Seq <= folded: // it is there only because it is still in force
		case e.Kind == sharedlog.Reset && e.Model == "":
			clear(c.Days)
		case e.Kind == sharedlog.Reset:
			delete(c.Days, e.Model)
		case e.HasDay:
			c.Days[e.Model] = state.DayUsage{Start: e.Day.Start, Count: e.Day.Count, Tokens: e.Day.Tokens}
		}
	}
}

// foldSpend brings the table spend up to the last event.
func (c *content) foldSpend() {
	folded := c.facts.number(factFolded)
	for _, e := range c.events {
		if e.Kind != sharedlog.Spend || e.Seq <= folded {
			continue
		}
		if change, err := state.ParseSpendChange(e.Text); err == nil {
			is := c.Spend[e.Model]
			is.Add(change)
			c.Spend[e.Model] = is
		}
	}
}

// news returns the content as a step tells it to the process of the given number.
func (c *content) news(process int64) sharedlog.News {
	image := &sharedlog.Image{
		Identity: c.facts[factFile],
		Events:   c.events,
		Quotas:   c.Quotas, Said: c.Said, Cooldowns: c.Cooldowns, Days: c.Days, Answers: c.Answers, Found: c.Found,
		Pools:    c.Pools,
		Spend:    c.Spend,
		Classes:  c.facts.classes(),
		UsedWall: c.facts.number(factUsedWall), UsedMono: c.facts.number(factUsedMono),
	}
	for _, other := range c.processes() {
		if other != process {
			image.Processes = append(image.Processes, other)
		}
	}
	return sharedlog.News{Image: image, Span: c.facts.number(factSpan), Folded: c.facts.number(factFolded)}
}

// processes returns those that may hold something: that have a lease, or of which only events
// are there. Process 0 is the time before the file was shared.
func (c *content) processes() (all []int64) {
	seen := map[int64]bool{0: true}
	add := func(process int64) {
		if !seen[process] {
			seen[process] = true
			all = append(all, process)
		}
	}
	for _, l := range c.leases {
		add(l.process)
	}
	for _, e := range c.events {
		add(e.Process)
	}
	return all
}
