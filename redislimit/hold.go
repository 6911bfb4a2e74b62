package redislimit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/limit"
)

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

// String returns the id.
func (h hold) String() string {
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // it has but texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseHold reads an id.
func parseHold(id string) (h hold, err error) {
	text, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil || !h.valid() {
		return hold{}, fmt.Errorf("%w: id is %.50q, which TakeAll has not returned", limit.ErrInvalid, id)
	}
	return h, nil
}

func (h hold) valid() bool {
	return bytes.HasPrefix(h.Record, []byte("{")) && len(h.Parts) > 0 && len(h.Parts) <= maxCharges &&
		!slices.ContainsFunc(h.Parts, func(p heldPart) bool { return !p.valid() })
}

func (p heldPart) valid() bool {
	a, b := p.Basis[0], p.Basis[1]
	known := strings.Contains(kindFixedWindow+kindSlidingCounter+kindSlidingLog+kindTokenBucket, p.Kind)
	return known && len(p.Kind) == 1 && bytes.HasPrefix(p.State, []byte("{")) && p.N >= 0 && int64(p.N) <= maxUnits &&
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
