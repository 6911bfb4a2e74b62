package fleet

import (
	"fmt"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Command is what an entry of the log says. The nil Command is not valid.
type Command interface {
	// Append appends the command as bytes, from which Decode reads the same one.
	Append(to []byte) []byte
}

// Verb is a command of the engine.
type Verb struct{ engine.Command }

// Join makes its process a member. A member may join again; its number of commands goes on.
type Join struct {
	Lease     int64 // how long its slots are its own without a word, in nanoseconds
	MaxModels int   // the least of all members holds; 0 for the engine's default
	Rules     int   // the greatest rules number that it knows: see Rules
}

// Alive says that its process lives, and what time it is: see State.Now.
type Alive struct{}

// Gone ends the slots and the places in line of a process. It is void if the process has spoken
// since.
type Gone struct {
	Process int64
	N       int64 // the last number of the process that was heard
}

// Bye ends the membership of its process, and with it its slots and places in line.
type Bye struct{}

// Outage says that its process was cut off from the log. All leases begin anew, and every member
// owes an Answer: until then, or for its lease and a window, its share of all limits is withheld.
type Outage struct{}

// Answer says that its process has told all that it charged while it was cut off.
type Answer struct {
	Outage int64 // which one: the Seq of its entry
}

// Tick lets happen what is due.
type Tick struct{}

// Saved tells of an image, and of the digest of all outcomes up to it.
type Saved struct {
	Seq    int64 // of the last entry in the image
	Digest engine.Digest
	Size   int // of the image, in bytes
}

// The kinds of commands, which are the first number of their bytes. New ones come at the end.
const (
	kindVerb = iota
	kindJoin
	kindAlive
	kindGone
	kindBye
	kindOutage
	kindAnswer
	kindTick
	kindSaved
	kindEnd
)

// LongestLease bounds the lease of a member.
const LongestLease = 24 * time.Hour

// Append appends the command.
func (c Verb) Append(to []byte) []byte { return c.Command.Append(wire.AppendUint(to, kindVerb)) }

// Append appends the command.
func (c Join) Append(to []byte) []byte {
	to = wire.AppendUint(wire.AppendUint(to, kindJoin), uint64(c.Lease))
	return wire.AppendUint(wire.AppendUint(to, uint64(c.MaxModels)), uint64(c.Rules))
}

// Append appends the command.
func (c Alive) Append(to []byte) []byte { return wire.AppendUint(to, kindAlive) }

// Append appends the command.
func (c Gone) Append(to []byte) []byte {
	return wire.AppendInt(wire.AppendInt(wire.AppendUint(to, kindGone), c.Process), c.N)
}

// Append appends the command.
func (c Bye) Append(to []byte) []byte { return wire.AppendUint(to, kindBye) }

// Append appends the command.
func (c Outage) Append(to []byte) []byte { return wire.AppendUint(to, kindOutage) }

// Append appends the command.
func (c Answer) Append(to []byte) []byte {
	return wire.AppendUint(wire.AppendUint(to, kindAnswer), uint64(c.Outage))
}

// Append appends the command.
func (c Tick) Append(to []byte) []byte { return wire.AppendUint(to, kindTick) }

// Append appends the command.
func (c Saved) Append(to []byte) []byte {
	to = wire.AppendUint(wire.AppendUint(wire.AppendUint(to, kindSaved), uint64(c.Seq)), uint64(c.Digest))
	return wire.AppendUint(to, uint64(c.Size))
}

// Decode reads the bytes of one command. It accepts only what Append writes.
func Decode(data []byte) (Command, error) { return decode(wire.NewReader(data), engine.ReadCommand) }

func decode(r *wire.Reader, verb func(*wire.Reader) (engine.Command, error)) (Command, error) {
	kind := r.UpTo(kindEnd - 1)
	if kind == kindVerb && r.Err() == nil {
		c, err := verb(r)
		if err != nil {
			return nil, err
		}
		return Verb{c}, nil
	}
	c := read(kind, r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	return c, nil
}

func read(kind uint64, r *wire.Reader) Command {
	switch kind {
	case kindJoin:
		return Join{Lease: int64(r.UpTo(uint64(LongestLease))), MaxModels: int(r.UpTo(math.MaxInt)), Rules: int(r.UpTo(math.MaxInt32))}
	case kindAlive:
		return Alive{}
	case kindGone:
		return Gone{Process: r.Int(), N: r.Int()}
	case kindBye:
		return Bye{}
	case kindOutage:
		return Outage{}
	case kindAnswer:
		return Answer{Outage: int64(r.UpTo(math.MaxInt64))}
	case kindTick:
		return Tick{}
	case kindSaved:
		return Saved{Seq: int64(r.UpTo(math.MaxInt64)), Digest: engine.Digest(r.Uint()), Size: int(r.UpTo(math.MaxInt32))}
	}
	r.Fail("verb without its bytes")
	return nil
}
