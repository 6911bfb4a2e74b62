package redisstore

import (
	"encoding/binary"
	"slices"
	"strconv"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// encoder makes the entry of a write. The days in it are as they were planned: where others have
// written meanwhile, the script replaces them. An encoder may be used again after begin.
type encoder struct {
	process int64
	batch   int64 // Batch.Wall
	models  []string
	told    []bool   // whether a day of each model is told
	days    []string // of each model after the events; "" where they tell none
	flags   byte
	number  int64  // of the last event
	body    []byte // the events
	added   []byte // what the days add, for the script: see addDay
	whole   []byte // the entry
}

func (c *encoder) begin(process, batch int64) {
	*c = encoder{process: process, batch: batch, models: c.models[:0], told: c.told[:0], days: c.days[:0],
		body: c.body[:0], added: c.added[:0], whole: c.whole[:0]}
}

// model returns the index of a model among those of the entry.
func (c *encoder) model(e *sharedlog.Event) int {
	i := slices.Index(c.models, e.Model)
	if i < 0 {
		i = len(c.models)
		c.models, c.told, c.days = append(c.models, e.Model), append(c.told, false), append(c.days, "")
	}
	c.told[i] = c.told[i] || e.HasDay
	return i
}

// beforeWriting returns how long before the entry is written its event was made, by the wall clock
// of its limiter at the time of the batch. The end of a cooldown is no such time.
func beforeWriting(e *sharedlog.Event, batch int64) int64 {
	if e.Kind == sharedlog.Cooldown {
		return e.Wall
	}
	return batch - e.Wall
}

// add adds an event.
func (c *encoder) add(e *sharedlog.Event, added sharedlog.DayAdded) {
	switch e.Kind {
	case sharedlog.Reset, sharedlog.Quota, sharedlog.Day:
		c.flags |= changesDays
	}
	before := beforeWriting(e, c.batch)
	fields := [...]int64{e.Ref, before, e.Mono, e.Age, int64(e.Requests)} // in the order of the bits
	flags, kind := byte(0), byte(e.Kind)&^otherProcess
	for i, n := range fields {
		if n != 0 {
			flags |= 1 << i
		}
	}
	if e.Count != (tokens.Count{}) {
		flags |= hasCount
	}
	if e.Text != "" {
		flags |= hasText
	}
	if e.HasDay {
		flags |= hasDay
	}
	if e.Process != c.process {
		kind |= otherProcess
	}
	model := c.model(e)
	b := append(c.body, flags, kind)
	b = binary.AppendUvarint(b, uint64(model))
	b = binary.AppendVarint(b, e.N-c.number)
	c.number = e.N
	if kind&otherProcess != 0 {
		b = binary.AppendUvarint(b, uint64(e.Process))
	}
	for _, n := range fields {
		if n != 0 {
			b = binary.AppendVarint(b, n)
		}
	}
	if flags&hasCount != 0 {
		b = binary.AppendVarint(b, int64(e.Input))
		b = binary.AppendVarint(b, int64(e.Output))
	}
	if flags&hasText != 0 {
		b = append(binary.AppendUvarint(b, uint64(len(e.Text))), e.Text...)
	}
	c.body = b
	switch {
	case e.Kind == sharedlog.Reset && e.Model == "":
		clear(c.days)
	case e.Kind == sharedlog.Reset:
		c.days[model] = ""
	}
	if e.HasDay {
		c.addDay(model, dayText(e.Day), added)
	}
}

// addDay adds the day of a model. The script learns where it begins in the body, of which model it
// is, and the requests and tokens that the event adds to it.
func (c *encoder) addDay(model int, text string, added sharedlog.DayAdded) {
	b := strconv.AppendInt(c.added, int64(len(c.body)), 10)
	for _, n := range []int{model, added.Requests, added.Tokens} {
		b = strconv.AppendInt(append(b, ' '), int64(n), 10)
	}
	c.added, c.days[model] = append(b, ';'), text
	c.body = append(append(c.body, byte(len(text))), text...)
}

// value returns the entry of n events.
func (c *encoder) value(n int) string {
	b := binary.AppendUvarint(c.whole, uint64(n))
	b = append(b, c.flags)
	b = binary.AppendUvarint(b, uint64(c.process))
	b = binary.AppendUvarint(b, uint64(len(c.models)))
	for i, model := range c.models {
		size := uint64(len(model)) << 1
		if c.told[i] {
			size |= 1
		}
		b = append(binary.AppendUvarint(b, size), model...)
	}
	c.whole = append(b, c.body...)
	return string(c.whole)
}
