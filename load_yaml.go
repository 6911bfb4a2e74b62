package ratelimit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// maxForeignYAML is the largest state file, in bytes, that is read in a layout
// other than the one that Persist writes. It bounds what a hostile file costs;
// in the layout of Persist there is no bound but the file's own size.
const maxForeignYAML = 1 << 20

// loadYAML reads a state file; nil when there is none.
func loadYAML(path string) (*snapshot, error) {
	if path == "" {
		return nil, errNoFile
	}
	s, err := readYAMLFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, corrupt(path, err)
	}
	return s, nil
}

func readYAMLFile(path string) (*snapshot, error) {
	// Looked at before it is opened: to open a FIFO waits for a writer, and to
	// open a device may set it in motion.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fsx.ErrNotRegular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readYAML(f)
}

// readYAML reads the layout of Persist line by line, and any other by way of the
// YAML library.
func readYAML(f io.ReadSeeker) (*snapshot, error) {
	s, lineErr := scanYAML(f)
	if lineErr == nil {
		return s, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxForeignYAML+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxForeignYAML {
		return nil, fmt.Errorf("larger than %d bytes and not in the layout that Persist writes: %w", maxForeignYAML, lineErr)
	}
	return parseYAML(data)
}

func newSnapshot() *snapshot {
	return &snapshot{
		quotas:    make(map[string]ModelQuota),
		state:     make(map[string]*UsageStats),
		cooldowns: make(map[string]time.Time),
	}
}

// limit returns the limit of that key in a file; nil where there is none.
func (q *ModelQuota) limit(key string) *int {
	switch key {
	case "max_rpm":
		return &q.MaxRPM
	case "max_tpm":
		return &q.MaxTPM
	case "max_rpd":
		return &q.MaxRPD
	case "max_itpm":
		return &q.MaxITPM
	case "max_otpm":
		return &q.MaxOTPM
	case "max_tpd":
		return &q.MaxTPD
	case "max_in_flight":
		return &q.MaxInFlight
	}
	return nil
}

// checkInput refuses more input tokens than there are tokens: like a negative
// count, no version ever wrote that.
func (e TokenEntry) checkInput() error {
	if e.Input > e.Count {
		return inField("input", fmt.Errorf("%d is more than the count, %d", e.Input, e.Count))
	}
	return nil
}

// corruptError is a state file that cannot be read for one. Its text is short
// whatever the file holds.
type corruptError struct {
	text  string
	cause error
}

func corrupt(path string, cause error) error {
	const most = 1000
	if len(path) > 300 {
		path = "…" + path[len(path)-300:]
	}
	// An error of the file system names the path itself.
	if pathErr := (*fs.PathError)(nil); errors.As(cause, &pathErr) {
		cause = fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	text := fmt.Sprintf("%v: %s: %v", ErrCorruptState, path, cause)
	if len(text) > most {
		text = text[:most] + "…"
	}
	return &corruptError{strings.ToValidUTF8(text, ""), cause}
}

func (e *corruptError) Error() string   { return e.text }
func (e *corruptError) Unwrap() []error { return []error{ErrCorruptState, e.cause} }

var errDuplicate = errors.New("a duplicate key")

// fieldError is what is wrong with a field, and where in the file that is.
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

// invalidQuota makes err wrap ErrInvalidQuota too.
func invalidQuota(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*fieldError); ok {
		e.cause = fmt.Errorf("%w: %w", ErrInvalidQuota, e.cause)
		return e
	}
	return fmt.Errorf("%w: %w", ErrInvalidQuota, err)
}
