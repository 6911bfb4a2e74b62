package redislimit

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Options are the settings of a limiter or a Group. The zero value is ready to use.
type Options struct {
	// Prefix tells limiters of one kind and one window or rate apart: those of the same Prefix
	// share their counts. It must not contain braces. Empty is "ratelimit".
	Prefix string
	// OnFailure is what happens when Redis gives no answer. Zero is FailClosed.
	OnFailure Failure
	// Timeout is how long a call waits for Redis. Zero is 250 ms. A deadline of the context ends
	// the call earlier.
	Timeout time.Duration
	// CacheDenials is for how many keys a limiter remembers its last denial, and refuses the same
	// number of units by itself until RetryAfter. It gives up to notice units that are given back
	// meanwhile. Admissions are never remembered. Zero remembers nothing. A Group ignores it.
	CacheDenials int
	// HoldTTL is how long a Hold of Group.HoldAll can be settled. Zero is 10 minutes. The limiters
	// ignore it.
	HoldTTL time.Duration
	// OnError is told when Redis fails, in the goroutine of the caller. Nil discards errors. While
	// the breaker is open nothing fails.
	OnError func(error)
}

const (
	defaultPrefix  = "ratelimit"
	defaultTimeout = 250 * time.Millisecond
	defaultHoldTTL = 10 * time.Minute
	maxHoldTTL     = 400 * 24 * time.Hour
	remembered     = 10 * time.Second // the answer of a charge
)

// check returns an error that names the field and its value, and sets what is zero.
func (o *Options) check(operation string, client redis.UniversalClient) error {
	if isNil(client) {
		return invalid(operation, "client is nil")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return invalid(operation, "Options.Prefix is %q, want a name without braces", o.Prefix)
	}
	if err := o.OnFailure.validate(); err != nil {
		return invalid(operation, "Options.%w", err)
	}
	switch {
	case o.Timeout < 0:
		return invalid(operation, "Options.Timeout is %v, want 0 or more", o.Timeout)
	case o.CacheDenials < 0:
		return invalid(operation, "Options.CacheDenials is %d, want 0 or more", o.CacheDenials)
	case o.HoldTTL < 0 || o.HoldTTL > maxHoldTTL:
		return invalid(operation, "Options.HoldTTL is %v, want 0 to %v", o.HoldTTL, maxHoldTTL)
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.HoldTTL == 0 {
		o.HoldTTL = defaultHoldTTL
	}
	return nil
}

// invalid returns the error of a constructor for what is out of range.
func invalid(operation, format string, args ...any) error {
	return fmt.Errorf("%s: %w: "+format, append([]any{operation, limit.ErrInvalid}, args...)...)
}

// isNil reports whether a value is nil, or a nil pointer.
func isNil(value any) bool {
	return value == nil || reflect.ValueOf(value).Kind() == reflect.Pointer && reflect.ValueOf(value).IsNil()
}
