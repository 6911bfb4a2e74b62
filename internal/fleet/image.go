package fleet

import (
	"encoding/binary"
	"fmt"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// The first number of an image says its form: without the numbers that were skipped, which every
// version reads, or with them.
const (
	plainForm   = 1
	skippedForm = 2
)

// AppendImage appends the whole state as bytes, from which Read makes the same one. The same state
// has the same bytes.
func (s *State) AppendImage(to []byte) []byte {
	form := s.form()
	head := wire.AppendUint(nil, form)
	head = wire.AppendInt(wire.AppendInt(head, s.clock.last.Instant), s.clock.last.Wall)
	head = wire.AppendInt(wire.AppendInt(head, s.clock.shift), s.check)
	head = wire.AppendUint(wire.AppendUint(head, uint64(s.digest)), uint64(s.members.order))
	head = wire.AppendUint(head, uint64(len(s.members.all)))
	for _, m := range s.members.all {
		if head = m.append(head); form == skippedForm {
			head = m.appendSkipped(head)
		}
	}
	to = append(wire.AppendUint(to, uint64(len(head))), head...)
	return s.Engine.AppendImage(to)
}

// form returns the form of an image, which all processes of late can read.
func (s *State) form() uint64 {
	is := uint64(plainForm)
	for _, m := range s.members.all {
		switch {
		case m.Rules < skips:
			return plainForm
		case len(m.skipped) > 0:
			is = skippedForm
		}
	}
	return is
}

func (m *Member) append(to []byte) []byte {
	for _, n := range [...]int64{
		m.Process, m.N, m.Order, m.HeardAt, m.Lease, int64(m.MaxModels), int64(m.Rules), m.Owes, int64(m.Shares), m.Until,
	} {
		to = wire.AppendInt(to, n)
	}
	return wire.AppendBool(wire.AppendBool(to, m.Left), m.asleep)
}

// appendSkipped appends how far each run is from the one before it, and how long it is.
func (m *Member) appendSkipped(to []byte) []byte {
	to = wire.AppendUint(to, uint64(len(m.skipped)))
	at := int64(0)
	for _, r := range m.skipped {
		to = wire.AppendUint(wire.AppendUint(to, uint64(r.first-at-1)), uint64(r.last-r.first))
		at = r.last
	}
	return to
}

func (m *Member) readSkipped(r *wire.Reader) {
	at := int64(0)
	for range r.Count(mostSkipped, 2) {
		if at >= m.N {
			r.Fail("number that was skipped before it could be said")
			return
		}
		first := at + 1 + int64(r.UpTo(uint64(m.N-at-1)))
		at = first + int64(r.UpTo(uint64(m.N-first)))
		m.skipped = append(m.skipped, run{first, at})
	}
}

func readMember(r *wire.Reader) *Member {
	return &Member{
		Process: r.Int(), N: r.Within(0, math.MaxInt64), Order: r.Int(), HeardAt: r.Within(0, math.MaxInt64), Lease: r.Within(0, int64(LongestLease)),
		MaxModels: r.Small(0, math.MaxInt), Rules: r.Small(0, math.MaxInt32),
		Owes: r.Within(0, math.MaxInt64), Shares: r.Small(0, math.MaxInt), Until: r.Int(),
		Left: r.Bool(), asleep: r.Bool(),
	}
}

// Read returns the state of an image. observer may be nil.
func Read(image []byte, observer engine.Observer) (*State, error) {
	n, size := binary.Uvarint(image)
	if size <= 0 || n > uint64(len(image)-size) {
		return nil, fmt.Errorf("read image: %w: cut members", wire.ErrInvalid)
	}
	head, rest := image[size:size+int(n)], image[size+int(n):]
	s := New(nil)
	if err := s.read(wire.NewReader(head)); err != nil {
		return nil, fmt.Errorf("read image: members: %w", err)
	}
	var err error
	if s.Engine, err = engine.Read(rest, observer); err != nil {
		return nil, err
	}
	s.Engine.Withhold(s.withheld())
	for _, m := range s.members.all {
		if m.asleep {
			s.Engine.Sleep(m.Process, true)
		}
	}
	return s, nil
}

func (s *State) read(r *wire.Reader) error {
	form := r.Uint()
	if r.Err() == nil && form != plainForm && form != skippedForm {
		return fmt.Errorf("version %d, want %d or %d", form, plainForm, skippedForm)
	}
	s.clock.last = account.Now{Instant: r.Within(0, math.MaxInt64), Wall: r.Within(0, math.MaxInt64)}
	s.clock.shift, s.check = r.Int(), r.Int()
	s.digest, s.members.order = engine.Digest(r.Uint()), int64(r.UpTo(math.MaxInt64))
	const leastMember = 12
	for range r.Count(math.MaxInt, leastMember) {
		m := readMember(r)
		if form == skippedForm {
			m.readSkipped(r)
		}
		if s.members.of[m.Process] != nil {
			r.Fail("member that is there twice")
		}
		if m.Owes != 0 && m.Shares == 0 {
			r.Fail("share of nobody")
		}
		s.members.all = append(s.members.all, m)
		s.members.of[m.Process] = m
	}
	return r.End()
}
