package engine

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// SetClasses is Engine.SetClasses.
type SetClasses struct{ Classes map[string]state.Class }

// Append appends the command.
func (c SetClasses) Append(to []byte) []byte {
	return appendClasses(wire.AppendUint(to, kindSetClasses), c.Classes)
}

func appendClasses(to []byte, classes map[string]state.Class) []byte {
	return appendNamed(to, classes, func(to []byte, c state.Class) []byte {
		to = wire.AppendUint(wire.AppendUint(to, uint64(c.Weight)), uint64(c.ReservePercent))
		return wire.AppendBool(wire.AppendUint(to, uint64(c.MaxQueue)), c.Ahead)
	})
}

func readSetClasses(r *wire.Reader) Command { return SetClasses{readClasses(r)} }

// readClasses reads valid classes.
func readClasses(r *wire.Reader) map[string]state.Class {
	classes := readNamed(r, func(r *wire.Reader) state.Class {
		return state.Class{
			Weight: int(r.UpTo(state.MostWeight)), ReservePercent: int(r.UpTo(100)), MaxQueue: int(r.UpTo(math.MaxInt)), Ahead: r.Bool(),
		}
	})
	if state.ValidateClasses(classes) != nil {
		r.Fail("classes out of range")
		return nil
	}
	return classes
}

func (c SetClasses) apply(e *Engine, _ account.ID, now account.Now) (o Outcome) {
	if o.Ignored = state.ValidateClasses(c.Classes) != nil; !o.Ignored {
		e.SetClasses(c.Classes, now)
	}
	return o
}

// SetMaxModels is Engine.SetMaxModels.
type SetMaxModels struct{ Most int }

// Append appends the command.
func (c SetMaxModels) Append(to []byte) []byte {
	return wire.AppendUint(wire.AppendUint(to, kindSetMaxModels), uint64(c.Most))
}

func readSetMaxModels(r *wire.Reader) Command { return SetMaxModels{int(r.UpTo(math.MaxInt))} }

func (c SetMaxModels) apply(e *Engine, _ account.ID, _ account.Now) (o Outcome) {
	e.SetMaxModels(c.Most)
	return o
}
