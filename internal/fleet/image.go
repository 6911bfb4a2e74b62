package fleet

import (
	"encoding/binary"
	"fmt"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// imageVersion is the first number of an image. Another one is another form.
const imageVersion = 1

// AppendImage appends the whole state as bytes, from which Read makes the same one. The same state
// has the same bytes.
func (s *State) AppendImage(to []byte) []byte {
	head := wire.AppendUint(nil, imageVersion)
	head = wire.AppendInt(wire.AppendInt(head, s.clock.last.Instant), s.clock.last.Wall)
	head = wire.AppendInt(wire.AppendInt(head, s.clock.shift), s.check)
	head = wire.AppendUint(wire.AppendUint(head, uint64(s.digest)), uint64(s.members.order))
	head = wire.AppendUint(head, uint64(len(s.members.all)))
	for _, m := range s.members.all {
		head = m.append(head)
	}
	to = append(wire.AppendUint(to, uint64(len(head))), head...)
	return s.Engine.AppendImage(to)
}

func (m *Member) append(to []byte) []byte {
	for _, n := range [...]int64{
		m.Process, m.N, m.Order, m.HeardAt, m.Lease, int64(m.MaxModels), int64(m.Rules), m.Owes, int64(m.Shares), m.Until,
	} {
		to = wire.AppendInt(to, n)
	}
	return wire.AppendBool(wire.AppendBool(to, m.Left), m.asleep)
}

func readMember(r *wire.Reader) *Member {
	return &Member{
		Process: r.Int(), N: r.Int(), Order: r.Int(), HeardAt: r.Within(0, math.MaxInt64), Lease: r.Within(0, int64(LongestLease)),
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
	if v := r.Uint(); r.Err() == nil && v != imageVersion {
		return fmt.Errorf("version %d, want %d", v, imageVersion)
	}
	s.clock.last = account.Now{Instant: r.Within(0, math.MaxInt64), Wall: r.Within(0, math.MaxInt64)}
	s.clock.shift, s.check = r.Int(), r.Int()
	s.digest, s.members.order = engine.Digest(r.Uint()), int64(r.UpTo(math.MaxInt64))
	const leastMember = 12
	for range r.Count(math.MaxInt, leastMember) {
		m := readMember(r)
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
