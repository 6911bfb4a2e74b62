package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// formerEntry is an entry of the stream in the layout before: the events of one write, which have
// the places from seq on. Its bytes are the number of events; flags; the process; the models, each
// with whether a day of it is told; and the events.
type formerEntry struct {
	seq    int64
	micros int64 // when it was written, by the log's time
	value  string
}

// mostPerEntry is how many events an entry may have.
const mostPerEntry = 1 << 12

// errEntry is wrapped by the errors of entries that no version of the layout before writes.
var errEntry = errors.New("damaged entry of the log")

func parseFormerEntry(id, value string) (n formerEntry, err error) {
	first, second, _ := strings.Cut(id, "-")
	n.value = value
	if n.seq, err = strconv.ParseInt(first, 10, 64); err == nil {
		n.micros, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || n.seq > 1<<62 { // so that there are places behind it
		return n, fmt.Errorf("%w: ID %q", errEntry, id)
	}
	return n, nil
}

// events calls f for each event that is not dropped: dropped has a 1 for each that is.
func (n formerEntry) events(dropped string, f func(*former.Event) error) error {
	d := formerDecoder{reader: reader{rest: n.value}, micros: n.micros}
	count := d.uvarint()
	d.byte()
	d.process = int64(d.uvarint())
	models := d.uvarint()
	if d.bad || count == 0 || count > mostPerEntry || models > count {
		return fmt.Errorf("%w: %d has %d events of %d models", errEntry, n.seq, count, models)
	}
	for i := uint64(0); i < models && !d.bad; i++ {
		d.models = append(d.models, d.slice(d.uvarint()>>1))
	}
	for i := range int(count) {
		e := former.Event{Seq: n.seq + int64(i)}
		d.event(&e)
		if d.bad {
			return fmt.Errorf("%w: event %d is cut off", errEntry, e.Seq)
		}
		if err := d.err; err != nil {
			return fmt.Errorf("%w: event %d: %w", errEntry, e.Seq, err)
		}
		if i < len(dropped) && dropped[i] == '1' {
			continue
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	if d.rest != "" {
		return fmt.Errorf("%w: %d bytes follow event %d", errEntry, len(d.rest), n.seq+int64(count)-1)
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

// formerDecoder reads the events of an entry.
type formerDecoder struct {
	reader
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
		d.bad = true
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
	e.Requests = tokens.SaturatedInt(field(hasRequests))
	e.Count = tokens.Count{Input: tokens.SaturatedInt(field(hasCount)), Output: tokens.SaturatedInt(field(hasCount))}.Clamp()
	if flags&hasText != 0 {
		e.Text = strings.Clone(d.slice(d.uvarint()))
	}
	if e.HasDay = flags&hasDay != 0; e.HasDay {
		if day := d.slice(uint64(d.byte())); !d.bad && d.err == nil {
			e.Day, d.err = parseDay(day)
		}
	}
}

// nanos returns a time in microseconds as one in nanoseconds, held at the ends of the range.
func nanos(micros int64) int64 {
	const most = math.MaxInt64 / 1000
	return min(max(micros, -most), most) * 1000
}

// reader takes fields off the front of a text. Once a field is not whole, all are zero.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) byte() byte {
	if r.bad = r.bad || r.rest == ""; r.bad {
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if r.bad || shift == 63 && b > 1 {
			r.bad = true
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (r *reader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// slice returns the next n bytes.
func (r *reader) slice(n uint64) string {
	if r.bad = r.bad || n > uint64(len(r.rest)); r.bad {
		return ""
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
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
	start, rest, err := parseOrdered(text)
	if err != nil {
		return d, fmt.Errorf("day: %w", err)
	}
	count, total, _ := strings.Cut(rest, " ")
	d.Start = start
	if d.Count, err = parseCount(count); err != nil {
		return d, fmt.Errorf("day: requests: %w", err)
	}
	if d.Tokens, err = parseCount(total); err != nil {
		return d, fmt.Errorf("day: tokens: %w", err)
	}
	return d, nil
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is negative", n)
	}
	return n, err
}

// parseSpent reads what was spent: the day and the month, the amounts, and the last event that is
// in them.
func parseSpent(text string) (s state.Spend, err error) {
	for _, at := range [...]*int64{&s.Day.Begin, &s.Day.End, &s.Month.Begin, &s.Month.End} {
		if *at, text, err = parseOrdered(text); err != nil {
			return s, err
		}
	}
	day, rest, _ := strings.Cut(text, " ")
	month, _, _ := strings.Cut(rest, " ")
	for _, n := range [...]struct {
		text string
		into *int64
	}{{day, (*int64)(&s.Day.Spent)}, {month, (*int64)(&s.Month.Spent)}} {
		if *n.into, err = strconv.ParseInt(n.text, 10, 64); err != nil {
			return s, err
		}
	}
	return s, s.Check(false)
}

// formerName returns the name of a model that a field of a hash is of; false where it is of none,
// but keeps the hash there or tells something to an earlier version.
func formerName(field string) (model string, ok bool) {
	switch {
	case !strings.HasPrefix(field, "\x00"):
		return field, true
	case strings.HasPrefix(field, "\x00\x00"):
		return field[1:], true
	}
	return "", false
}
