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

// entry is an event as the stream has it. Its bytes are the event's fields without its place and
// date, which the ID of the entry tells, and behind them the day of its model. A script writes the
// day, because only the store knows it where several processes write at once.
type entry struct {
	seq   int64
	stamp int64 // when it was written, in microseconds of the log's time
	value string
}

// The bits of an entry's first byte tell which of the fields follow: those that are not zero. The
// second byte is the kind, and behind it is the model. The scripts read so far.
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

// errEntry is wrapped by the errors of entries that no version of this layout writes.
var errEntry = errors.New("damaged entry of the log")

// beforeWriting returns how long before the entry is written its event was made, by the wall clock
// of its limiter at the time of the batch. The end of a cooldown is no such time.
func beforeWriting(e *sharedlog.Event, batch int64) int64 {
	if e.Kind == sharedlog.Cooldown {
		return e.Wall
	}
	return batch - e.Wall
}

// appendEntry appends the bytes of an event, without its day, as a batch writes it.
func appendEntry(b []byte, e *sharedlog.Event, batch int64) []byte {
	before := beforeWriting(e, batch)
	flags := byte(0)
	set := func(bit byte, is bool) {
		if is {
			flags |= bit
		}
	}
	set(hasRef, e.Ref != 0)
	set(hasBefore, before != 0)
	set(hasMono, e.Mono != 0)
	set(hasAge, e.Age != 0)
	set(hasRequests, e.Requests != 0)
	set(hasCount, e.Count != tokens.Count{})
	set(hasText, e.Text != "")
	set(hasDay, e.HasDay)
	b = append(b, flags, byte(e.Kind))
	b = appendText(b, e.Model)
	b = binary.AppendUvarint(b, uint64(e.Process))
	b = binary.AppendVarint(b, e.N)
	for _, f := range [...]struct {
		bit byte
		n   int64
	}{{hasRef, e.Ref}, {hasBefore, before}, {hasMono, e.Mono}, {hasAge, e.Age}, {hasRequests, int64(e.Requests)}} {
		if flags&f.bit != 0 {
			b = binary.AppendVarint(b, f.n)
		}
	}
	if flags&hasCount != 0 {
		b = binary.AppendVarint(b, int64(e.Input))
		b = binary.AppendVarint(b, int64(e.Output))
	}
	if flags&hasText != 0 {
		b = appendText(b, e.Text)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// process returns the process of an entry without a look at the rest; 0 if it has none.
func (n entry) process() int64 {
	r := reader{rest: n.value}
	r.byte()
	r.byte()
	r.text()
	return int64(r.uvarint())
}

// event returns the event of an entry.
func (n entry) event() (*sharedlog.Event, error) {
	e, err := n.decode()
	if err == nil {
		err = e.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: event %d: %w", errEntry, n.seq, err)
	}
	return e, nil
}

func (n entry) decode() (*sharedlog.Event, error) {
	r := reader{rest: n.value}
	flags := r.byte()
	e := &sharedlog.Event{Seq: n.seq, Kind: sharedlog.Kind(r.byte()), Model: r.text(), Process: int64(r.uvarint()), N: r.varint()}
	field := func(bit byte) int64 {
		if flags&bit == 0 {
			return 0
		}
		return r.varint()
	}
	e.Ref = field(hasRef)
	before := field(hasBefore)
	e.Mono, e.Age = field(hasMono), field(hasAge)
	e.Requests = tokens.SaturatedInt(field(hasRequests))
	e.Count = tokens.Count{Input: tokens.SaturatedInt(field(hasCount)), Output: tokens.SaturatedInt(field(hasCount))}.Clamp()
	if flags&hasText != 0 {
		e.Text = r.text()
	}
	if e.HasDay = flags&hasDay != 0; e.HasDay && !r.bad {
		day, err := parseDay(r.rest)
		if err != nil {
			return nil, err
		}
		e.Day, r.rest = day, ""
	}
	switch {
	case r.bad:
		return nil, errors.New("it is cut off")
	case r.rest != "":
		return nil, fmt.Errorf("%d bytes follow it", len(r.rest))
	}
	if e.Wall = before; e.Kind != sharedlog.Cooldown {
		e.Wall = nanos(n.stamp) - before
	}
	return e, nil
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

func (r *reader) text() string {
	n := r.uvarint()
	if r.bad = r.bad || n > uint64(len(r.rest)); r.bad {
		return ""
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return strings.Clone(text)
}

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

// emptyField keeps a hash there that has nothing else.
const emptyField = "\x00"

// field returns the field of a model in a hash.
func field(model string) string {
	if strings.HasPrefix(model, emptyField) {
		return emptyField + model
	}
	return model
}

// modelOf is the reverse of field; false where the field is none.
func modelOf(field string) (model string, ok bool) {
	if field == emptyField {
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
	if err != nil {
		return 0, 0, fmt.Errorf("%w: ID %q", errEntry, id)
	}
	return seq, stamp, nil
}
