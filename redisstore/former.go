package redisstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// mostPerEntry is how many events an entry may have.
const mostPerEntry = 1 << 12

// errEntry is wrapped by the errors of entries that no version of the layout before writes.
var errEntry = errors.New("damaged entry of the log")

// formerEvents calls f for each event of an entry of the stream in the layout before. An entry has
// the events of one write: their number; flags; the process; the models, each with whether a day of
// it is told; and the events. Its ID is the place of the first one, and when it was written, by the
// log's time. Those that were dropped are passed over: dropped has a 1 for each.
func formerEvents(id, value, dropped string, f func(*former.Event) error) error {
	seq, micros, err := parseRowID(id)
	if err != nil || seq > 1<<62 { // so that there are places behind it
		return fmt.Errorf("%w: ID %q", errEntry, id)
	}
	d := formerDecoder{rest: bytes.NewBufferString(value), micros: micros}
	count := d.uvarint()
	d.byte()
	d.process = int64(d.uvarint())
	models := d.uvarint()
	if d.err != nil || count == 0 || count > mostPerEntry || models > count {
		return fmt.Errorf("%w: %d has %d events of %d models", errEntry, seq, count, models)
	}
	for range models {
		d.models = append(d.models, d.text(d.uvarint()>>1))
	}
	for i := range int(count) {
		e := former.Event{Seq: seq + int64(i)}
		d.event(&e)
		if d.err != nil {
			return fmt.Errorf("%w: event %d: %w", errEntry, e.Seq, d.err)
		}
		if i < len(dropped) && dropped[i] == '1' {
			continue
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	if d.rest.Len() > 0 {
		return fmt.Errorf("%w: %d bytes follow event %d", errEntry, d.rest.Len(), seq+int64(count)-1)
	}
	return nil
}

// The bits of an event's first byte tell which of the fields follow: those that are not zero.
const (
	hasRef = 1 << iota
	hasBefore
	hasMono
	hasAge
	hasRequests
	hasCount
	hasText
	hasDay
)

// otherProcess is a bit in the byte of the kind: the event is of another process than the entry.
const otherProcess = 0x80

// formerDecoder reads the events of an entry. The first error stays.
type formerDecoder struct {
	rest    *bytes.Buffer
	micros  int64
	process int64
	models  []string
	number  int64 // of the last event
	err     error
}

func (d *formerDecoder) event(e *former.Event) {
	flags, kind := d.byte(), d.byte()
	e.Kind, e.Process = former.Kind(kind&^otherProcess), d.process
	if model := d.uvarint(); model < uint64(len(d.models)) {
		e.Model = d.models[model]
	} else {
		d.fail(fmt.Errorf("it is of model %d", model))
	}
	d.number += d.varint()
	e.N = d.number
	if kind&otherProcess != 0 {
		e.Process = int64(d.uvarint())
	}
	field := func(bit byte) int64 {
		if flags&bit == 0 {
			return 0
		}
		return d.varint()
	}
	e.Ref = field(hasRef)
	e.Wall = nanos(d.micros) - field(hasBefore)
	field(hasMono) // of no clock that anybody else has
	e.Age = field(hasAge)
	e.Requests = state.SaturatedInt(field(hasRequests))
	e.Count = state.Count{Input: state.SaturatedInt(field(hasCount)), Output: state.SaturatedInt(field(hasCount))}.Clamp()
	if flags&hasText != 0 {
		e.Text = d.text(d.uvarint())
	}
	if e.HasDay = flags&hasDay != 0; e.HasDay {
		day, err := parseDay(d.text(uint64(d.byte())))
		e.Day = day
		d.fail(err)
	}
}

// fail notes an error, if there is one.
func (d *formerDecoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *formerDecoder) byte() byte {
	b, err := d.rest.ReadByte()
	d.fail(err)
	return b
}

func (d *formerDecoder) uvarint() uint64 {
	n, err := binary.ReadUvarint(d.rest)
	d.fail(err)
	return n
}

func (d *formerDecoder) varint() int64 {
	n, err := binary.ReadVarint(d.rest)
	d.fail(err)
	return n
}

// text returns the next n bytes.
func (d *formerDecoder) text(n uint64) string {
	if n > uint64(d.rest.Len()) {
		d.fail(io.ErrUnexpectedEOF)
		return ""
	}
	return string(d.rest.Next(int(n)))
}

// nanos returns a time in microseconds as one in nanoseconds, held at the ends of the range.
func nanos(micros int64) int64 {
	const most = math.MaxInt64 / 1000
	return min(max(micros, -most), most) * 1000
}

// parseOrdered takes a number off a text: eight bytes that are in the order of the numbers.
func parseOrdered(text string) (n int64, rest string, err error) {
	if len(text) < 8 {
		return 0, "", errors.New("a time is cut off")
	}
	return int64(binary.BigEndian.Uint64([]byte(text[:8])) ^ 1<<63), text[8:], nil
}

// parseDay reads a day: when it began, and the counts of requests and of tokens.
func parseDay(text string) (d state.DayUsage, err error) {
	d.Start, text, err = parseOrdered(text)
	if err == nil {
		_, err = fmt.Sscanf(text, "%d %d", &d.Count, &d.Tokens)
	}
	if err == nil && min(d.Count, d.Tokens) < 0 {
		err = fmt.Errorf("%d is negative", min(d.Count, d.Tokens))
	}
	if err != nil {
		err = fmt.Errorf("day: %w", err)
	}
	return d, err
}

// parseCooldown reads until when a model cools down, and why.
func parseCooldown(text string) (state.Cooldown, error) {
	until, cause, err := parseOrdered(text)
	return state.Cooldown{Until: time.Unix(0, until), Cause: cause}, err
}

// parseSpent reads what was spent: the day and the month, the amounts, and the last event that is
// in them.
func parseSpent(text string) (s state.Spend, err error) {
	for _, at := range [...]*int64{&s.Day.Begin, &s.Day.End, &s.Month.Begin, &s.Month.End} {
		if *at, text, err = parseOrdered(text); err != nil {
			return s, err
		}
	}
	if _, err := fmt.Sscanf(text, "%d %d", &s.Day.Spent, &s.Month.Spent); err != nil {
		return s, err
	}
	return s, s.Check(false)
}

// formerName returns what a field of a hash is of, as the name of a model; false where it is of
// nothing, but keeps the hash there or tells something to an earlier version.
func formerName(field string) (model string, ok bool) {
	model, marked := strings.CutPrefix(field, "\x00")
	return model, !marked || strings.HasPrefix(model, "\x00")
}
