package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// entry is an entry of the stream: the events of one write, which have the places from seq on. A
// script completes the days of some models in it, because only the store knows them where several
// processes write at once. The ID of the entry tells seq and stamp.
//
// The bytes are: the number of events; flags; the process; the models, each with whether a day of
// it is told; and the events. The scripts read all but the process and the events.
type entry struct {
	seq   int64
	stamp int64 // when it was written, in microseconds of the log's time
	n     int64 // how many events it has
	value string
}

// last returns the place of the last event of an entry.
func (n entry) last() int64 { return n.seq + n.n - 1 }

// changesDays is the flag of an entry with an event that changes days otherwise than by what it
// adds.
const changesDays = 1

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

// errEntry is wrapped by the errors of entries that no version of this layout writes.
var errEntry = errors.New("damaged entry of the log")

// mostPerEntry is how many events an entry may have, whoever wrote it.
const mostPerEntry = 1 << 12

// newEntry returns an entry as it came from the store.
func newEntry(id, value string) (n entry, err error) {
	if n.seq, n.stamp, err = parseID(id); err != nil {
		return n, err
	}
	r := reader{rest: value}
	count := r.uvarint()
	if r.bad || count == 0 || count > mostPerEntry {
		return n, fmt.Errorf("%w: %s has %d events", errEntry, id, count)
	}
	n.n, n.value = int64(count), value
	return n, nil
}

// process returns the process that wrote an entry; 0 if that cannot be read.
func (n entry) process() int64 {
	r := reader{rest: n.value}
	r.uvarint()
	r.byte()
	return int64(r.uvarint())
}

// events appends the events of an entry to all, but for those up to a place.
func (n entry) events(all []*sharedlog.Event, seen int64) ([]*sharedlog.Event, error) {
	r := reader{rest: n.value}
	count := r.uvarint()
	r.byte()
	d := decoder{reader: r, entry: n}
	d.process = int64(d.uvarint())
	models := d.uvarint()
	if models > count {
		d.bad = true
	}
	for i := uint64(0); i < models && !d.bad; i++ {
		d.models = append(d.models, d.take(d.uvarint()>>1))
	}
	of := make([]sharedlog.Event, n.n)
	for seq := n.seq; seq <= n.last(); seq++ {
		e := &of[seq-n.seq]
		d.event(e, seq)
		if d.bad {
			return nil, fmt.Errorf("%w: event %d is cut off", errEntry, seq)
		}
		err := d.err
		if err == nil {
			err = e.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: event %d: %w", errEntry, seq, err)
		}
		if seq > seen {
			all = append(all, e)
		}
	}
	if d.rest != "" {
		return nil, fmt.Errorf("%w: %d bytes follow event %d", errEntry, len(d.rest), n.last())
	}
	return all, nil
}

// decoder reads the events of an entry.
type decoder struct {
	reader
	entry   entry
	process int64
	models  []string
	number  int64 // of the last event
	err     error
}

func (d *decoder) event(e *sharedlog.Event, seq int64) {
	flags, kind := d.byte(), d.byte()
	e.Seq, e.Kind, e.Process = seq, sharedlog.Kind(kind&^otherProcess), d.process
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
	before := field(hasBefore)
	e.Mono, e.Age = field(hasMono), field(hasAge)
	e.Requests = tokens.SaturatedInt(field(hasRequests))
	e.Count = tokens.Count{Input: tokens.SaturatedInt(field(hasCount)), Output: tokens.SaturatedInt(field(hasCount))}.Clamp()
	if flags&hasText != 0 {
		e.Text = d.take(d.uvarint())
	}
	if e.HasDay = flags&hasDay != 0; e.HasDay {
		if day := d.slice(uint64(d.byte())); !d.bad && d.err == nil {
			e.Day, d.err = parseDay(day)
		}
	}
	if e.Wall = before; e.Kind != sharedlog.Cooldown {
		e.Wall = nanos(d.entry.stamp) - before
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

// take returns the next n bytes, in memory of their own: an event may outlive the entry.
func (r *reader) take(n uint64) string { return strings.Clone(r.slice(n)) }

const signBit = 1 << 63 // so that the bytes of numbers are in their order

// ordered returns a number as eight bytes that are in the order of the numbers.
func ordered(n int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n)^signBit)
	return string(b[:])
}

// parseOrdered is the reverse of ordered.
func parseOrdered(text string) (n int64, rest string, err error) {
	if len(text) < 8 {
		return 0, "", errors.New("a time is cut off")
	}
	return int64(binary.BigEndian.Uint64([]byte(text[:8])) ^ signBit), text[8:], nil
}

// dayText returns a day as the store has it.
func dayText(d state.DayUsage) string {
	b := append(make([]byte, 0, 32), ordered(d.Start)...)
	b = strconv.AppendInt(b, max(d.Count, 0), 10)
	b = strconv.AppendInt(append(b, ' '), max(d.Tokens, 0), 10)
	return string(b)
}

// parseDay is the reverse of dayText.
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

// cooldownText returns a cooldown as the store has it.
func cooldownText(e *sharedlog.Event) string { return ordered(e.Wall) + e.Text }

// emptyField keeps a hash there that has nothing else. laterField and newerField are LATER and
// NEWER of the scripts.
const (
	emptyField = "\x00"
	laterField = "\x00(the store is of a later version of go-ratelimit: update this program)"
	newerField = "\x00(the store is of a newer version of go-ratelimit: update this program)"
)

// field returns the field of a model in a hash.
func field(model string) string {
	if strings.HasPrefix(model, emptyField) {
		return emptyField + model
	}
	return model
}

// modelOf is the reverse of field; false where the field is none.
func modelOf(field string) (model string, ok bool) {
	if field == emptyField || field == laterField || field == newerField {
		return "", false
	}
	return strings.TrimPrefix(field, emptyField), true
}

// parseID returns the place and the time that the ID of an entry tells.
func parseID(id string) (seq, stamp int64, err error) {
	first, second, _ := strings.Cut(id, "-")
	if seq, err = strconv.ParseInt(first, 10, 64); err == nil {
		stamp, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || seq > 1<<62 { // so that there are places behind it
		return 0, 0, fmt.Errorf("%w: ID %q", errEntry, id)
	}
	return seq, stamp, nil
}
