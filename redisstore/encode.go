package redisstore

import (
	"encoding/binary"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// encoder makes the entry of a write, in pieces between which the script puts the days.
type encoder struct {
	process int64
	batch   int64 // Batch.Wall
	models  []string
	told    []bool // whether a day of each model is told
	flags   byte
	number  int64 // of the last event
	pieces  [][]byte
	days    []writtenDay // one behind each piece but the last
}

// writtenDay is the day that an event tells.
type writtenDay struct {
	model string
	text  string
	added sharedlog.DayAdded
}

func newEncoder(process, batch int64) *encoder {
	return &encoder{process: process, batch: batch, pieces: [][]byte{nil}}
}

// model returns the index of a model among those of the entry.
func (c *encoder) model(e *sharedlog.Event) int {
	i := slices.Index(c.models, e.Model)
	if i < 0 {
		i = len(c.models)
		c.models, c.told = append(c.models, e.Model), append(c.told, false)
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
	b := append(c.pieces[len(c.pieces)-1], flags, kind)
	b = binary.AppendUvarint(b, uint64(c.model(e)))
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
	c.pieces[len(c.pieces)-1] = b
	if e.HasDay {
		c.days = append(c.days, writtenDay{e.Model, dayText(e.Day), added})
		c.pieces = append(c.pieces, nil)
	}
}

// head returns the bytes before the events, of which there are n.
func (c *encoder) head(n int) []byte {
	b := binary.AppendUvarint(nil, uint64(n))
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
	return b
}

// value returns the entry of n events, with the days as they were planned.
func (c *encoder) value(n int) string {
	b := append(c.head(n), c.pieces[0]...)
	for i, day := range c.days {
		b = append(append(b, byte(len(day.text))), day.text...)
		b = append(b, c.pieces[i+1]...)
	}
	return string(b)
}
