package redislimit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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
	return h.settle(ctx, "commit", used, func(p heldPart) int { return p.N })
}

// Cancel gives back all that was taken. It is Commit of nothing.
func (h Hold) Cancel(ctx context.Context) error {
	return h.settle(ctx, "cancel", nil, func(heldPart) int { return 0 })
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

// settle ends the Hold. Where used ends, rest tells what was used.
func (h Hold) settle(ctx context.Context, operation string, used []int, rest func(heldPart) int) error {
	if h.held == nil {
		return nil
	}
	parts, server := h.held.Parts, h.group.server
	if len(used) > len(parts) {
		return fmt.Errorf("%s: %w: there are %d numbers, want at most %d", operation, limit.ErrInvalid, len(used), len(parts))
	}
	keys, args := make([]string, 0, len(parts)+1), []any{h.group.holdTTL}
	for i, p := range parts {
		n := rest(p)
		if i < len(used) {
			n = used[i]
		}
		if n < 0 || n > maxUnits {
			return fmt.Errorf("%s: %w: used[%d] is %d, want 0 to 2^50", operation, limit.ErrInvalid, i, n)
		}
		sign, change := "0", n-p.N
		switch {
		case change > 0:
			sign = "+"
		case change < 0:
			sign, change = "-", -change
		}
		keys = append(keys, string(p.State))
		args = append(append(args, p.Kind, sign), p.change(change)...)
	}
	answer, err := server.eval(ctx, settleScript, append(keys, string(h.held.Record)), args)
	switch {
	case err != nil:
	case answer == "unknown":
		err = ErrNotHeld
	case answer != "settled":
		err = server.report(errReply)
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
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

// newHold returns the Hold of a call that has taken its parts.
func newHold(g *Group, c *call) Hold {
	h := hold{Record: []byte(c.record)}
	for _, p := range c.parts {
		h.Parts = append(h.Parts, heldPart{p.name, []byte(p.state), p.n, p.basis})
	}
	return Hold{g, &h}
}

func (h hold) valid() bool {
	for _, p := range h.Parts {
		a, b := p.Basis[0], p.Basis[1]
		if len(p.Kind) != 1 || !strings.Contains("wclb", p.Kind) || !bytes.HasPrefix(p.State, []byte("{")) || p.N < 0 || p.N > maxUnits ||
			a < 1 || b < 1 || b > maxParts || p.Kind != tokenBucketKind.name && a >= maxTime {
			return false
		}
	}
	return bytes.HasPrefix(h.Record, []byte("{")) && len(h.Parts) > 0 && len(h.Parts) <= maxCharges
}

// change are the arguments of the script settle for n units.
func (p heldPart) change(n int) []any {
	if p.Kind != tokenBucketKind.name {
		return []any{n, p.Basis[0], p.Basis[1], 0}
	}
	cost := bucket{num: p.Basis[0], den: p.Basis[1]}.time(n)
	return []any{cost.us, cost.parts, p.Basis[1], 0}
}
