package redislimit

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/limit"
)

type operationKey struct{}

// WithOperation names the operation that a call with the context is. Take of one limiter and one
// key, and Group.TakeAll and Group.HoldAll of one first key, charge once for each operation: a
// repeat within ten seconds, or within Options.HoldTTL for HoldAll, gets the answer of the first
// that was admitted, whatever it asks for. So a caller that got an error can repeat the call. id
// must be unique, at most 200 bytes long, and without braces and line breaks; a call with another
// one returns an error that matches limit.ErrInvalid. Calls without WithOperation are operations of
// their own.
func WithOperation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, operationKey{}, id)
}

const maxOperation = 200

var (
	process    = rand.Text()
	operations atomic.Uint64
)

// operation returns the name of the operation of a call, and whether the caller gave one.
func operation(ctx context.Context) (id string, named bool, err error) {
	id, named = ctx.Value(operationKey{}).(string)
	if !named {
		// The sign is for names that callers give: they cannot be those of others by chance.
		return process + "-" + strconv.FormatUint(operations.Add(1), 36), false, nil
	}
	if id == "" || len(id) > maxOperation || strings.ContainsAny(id, "{}\n") {
		return "", true, fmt.Errorf("%w: operation is %.250q, want 1 to %d bytes without braces and line breaks",
			limit.ErrInvalid, id, maxOperation)
	}
	return "=" + id, true, nil
}
