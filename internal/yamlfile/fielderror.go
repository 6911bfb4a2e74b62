package yamlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// checkInput says in which field there are more input tokens than tokens.
func checkInput(e state.Token) error {
	if err := e.CheckInput(); err != nil {
		return inField("input", err)
	}
	return nil
}

var errDuplicate = errors.New("a duplicate key")

// fieldError is an error in a field, and the place of the field in the file.
type fieldError struct {
	path  string // as in state.m.tokens[3].count
	cause error
}

func (e *fieldError) Error() string { return e.path + ": " + e.cause.Error() }
func (e *fieldError) Unwrap() error { return e.cause }

// inField says in which field of a map err is.
func inField(key string, err error) error {
	key = errtext.Clip(key)
	if !plainName(key) {
		key = strconv.Quote(key)
	}
	return inside(key, err)
}

// inItem says in which item of a list err is.
func inItem(i int, err error) error { return inside(fmt.Sprintf("[%d]", i), err) }

// inside puts a step before the path of err: it is made from the inside out, so
// that it costs nothing where nothing is wrong.
func inside(step string, err error) error {
	e, ok := err.(*fieldError)
	switch {
	case !ok:
		return &fieldError{step, err}
	case strings.HasPrefix(e.path, "…"):
	case len(e.path) > 300: // far deeper than any field of ours
		e.path = "…" + e.path
	case e.path[0] == '[':
		e.path = step + e.path
	default:
		e.path = step + "." + e.path
	}
	return e
}

// invalidQuota makes err wrap state.ErrInvalidQuota too.
func invalidQuota(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*fieldError); ok {
		e.cause = fmt.Errorf("%w: %w", state.ErrInvalidQuota, e.cause)
		return e
	}
	return fmt.Errorf("%w: %w", state.ErrInvalidQuota, err)
}
