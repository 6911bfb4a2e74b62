package redislimit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Hold is what Group.HoldAll has taken. Commit says how much was used in the end, Cancel that
// nothing was; without that it stays charged. The first of them ends the Hold, whichever process
// calls it; later calls, and those of the zero Hold, do nothing. It is safe to repeat a call that
// failed.
//
// Both return ErrNotHeld if the server knows nothing of the Hold, and otherwise the errors of Take,
// with FailClosed.
type Hold struct {
	group *Group
	held  *hold
}

// ErrNotHeld is returned by Commit and Cancel of a Hold of which the server knows nothing: it was
// made longer than Options.HoldTTL ago, or the server has lost it. What was taken stays charged.
var ErrNotHeld = errors.New("nothing is held by this id")

// Commit charges what was used, in the order of the states that the charges had, which is that of
// the charges where no limiter and key comes twice. What was taken beyond is given back as of the
// time at which it was taken, if it still counts, and what was used beyond is charged now, even if
// that is more than the limit. Where used ends, all that was taken was used.
func (h Hold) Commit(ctx context.Context, used ...int) error {
	if h.held == nil {
		return nil
	}
	if len(used) > len(h.held.Parts) {
		return fmt.Errorf("commit: %w: there are %d numbers, want at most %d", limit.ErrInvalid, len(used), len(h.held.Parts))
	}
	used = slices.Clone(used)
	for _, p := range h.held.Parts[len(used):] {
		used = append(used, p.N)
	}
	if err := h.settle(ctx, used); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Cancel gives back all that was taken. It is Commit of nothing.
func (h Hold) Cancel(ctx context.Context) error {
	if h.held == nil {
		return nil
	}
	if err := h.settle(ctx, make([]int, len(h.held.Parts))); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// ID returns what another process needs for Group.Held, and "" of the zero Hold. It contains the
// keys.
func (h Hold) ID() string {
	if h.held == nil {
		return ""
	}
	text, err := json.Marshal(h.held)
	if err != nil {
		panic(err) // it has but texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// Held returns the Hold of an id, of any Group on the same server. It does not ask the server.
func (g *Group) Held(id string) (Hold, error) {
	if id == "" {
		return Hold{}, nil
	}
	var h hold
	text, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil || !h.valid() {
		return Hold{}, fmt.Errorf("held: %w: id is %.50q, which is that of no Hold", limit.ErrInvalid, id)
	}
	return Hold{g, &h}, nil
}

func (h Hold) settle(ctx context.Context, used []int) error {
	keys, args := []string{string(h.held.Record)}, []any{h.group.holdTTL}
	for i, p := range h.held.Parts {
		if used[i] < 0 || used[i] > maxUnits {
			return fmt.Errorf("%w: used[%d] is %d, want 0 to 2^50", limit.ErrInvalid, i, used[i])
		}
		sign, change := "0", used[i]-p.N
		switch {
		case change > 0:
			sign = "+"
		case change < 0:
			sign, change = "-", -change
		}
		keys = append(keys, string(p.State))
		args = append(append(args, p.Kind, sign), p.change(change)...)
	}
	server := h.group.server
	answer, err := server.eval(ctx, settleScript, keys, args)
	switch {
	case err != nil:
		return err
	case answer == "unknown":
		return ErrNotHeld
	case answer != "settled":
		return server.report(errReply)
	}
	return nil
}

// hold is what an id tells: all that the script settle has to know, so that it is one call, with
// all keys declared, in any process.
type hold struct {
	Record []byte     `json:"r"` // its key; keys may be any bytes, texts in JSON may not
	Parts  []heldPart `json:"p"`
}

// heldPart is units of one state.
type heldPart struct {
	Kind  string   `json:"k"`
	State []byte   `json:"s"` // its key
	N     int      `json:"n"` // units that were taken
	Basis [2]int64 `json:"b"` // see basis
}

func (h hold) valid() bool {
	return bytes.HasPrefix(h.Record, []byte("{")) && len(h.Parts) > 0 && len(h.Parts) <= maxCharges &&
		!slices.ContainsFunc(h.Parts, func(p heldPart) bool { return !p.valid() })
}

func (p heldPart) valid() bool {
	a, b := p.Basis[0], p.Basis[1]
	known := strings.Contains(kindFixedWindow+kindSlidingCounter+kindSlidingLog+kindTokenBucket, p.Kind)
	return known && len(p.Kind) == 1 && bytes.HasPrefix(p.State, []byte("{")) && p.N >= 0 && p.N <= maxUnits &&
		a >= 1 && b >= 1 && b <= maxParts && (p.Kind == kindTokenBucket || a < maxTime)
}

// change are the arguments of the script settle for n units.
func (p heldPart) change(n int) []any {
	if p.Kind != kindTokenBucket {
		return []any{n, p.Basis[0], p.Basis[1], 0}
	}
	cost := bucket{num: p.Basis[0], den: p.Basis[1]}.cost(n)
	return []any{cost.us, cost.parts, p.Basis[1], 0}
}
