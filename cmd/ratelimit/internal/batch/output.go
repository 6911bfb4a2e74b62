package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// Output is OUT: a file to which whole lines are appended, locked for one process, or stdout, which
// remembers nothing.
type Output struct {
	path string
	file *os.File // nil for stdout
	to   io.Writer
	mark *mark // nil for stdout

	readOnly bool
}

// ReadOutput is OpenOutput for what writes nothing, and needs no lock.
func ReadOutput(path string, fresh bool) (*Output, error) {
	if fresh {
		return Stdout(io.Discard), nil
	}
	o := &Output{path: path, readOnly: true}
	var err error
	if o.file, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
		return Stdout(io.Discard), nil
	}
	if err != nil {
		return nil, err
	}
	o.mark = &mark{}
	if o.mark.file, err = os.Open(path + MarkSuffix); err == nil {
		err = o.mark.read()
	}
	if err != nil {
		o.Close() //nolint:errcheck // it was read alone
	}
	return o, err
}

// OpenOutput opens a file, and makes it where it is missing. Fresh gives a file that is there
// another name first. The error is ErrLocked while another process writes the file.
func OpenOutput(path string, fresh bool) (*Output, error) {
	m, err := openMark(path + MarkSuffix)
	if err != nil {
		return nil, err
	}
	o := &Output{path: path, mark: m}
	info, err := os.Stat(path)
	has := err == nil && info.Size() > 0
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
	case has && fresh:
		err = os.Rename(path, path+".before-"+fsx.AsideTime())
	case has && !m.begun():
		err = fmt.Errorf("it has lines, and without %s nobody knows of which input: --fresh moves it away", path+MarkSuffix)
	default:
		err = nil
	}
	if fresh {
		m.state = markState{Sequence: m.state.Sequence}
	}
	if err == nil {
		o.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		m.file.Close()
		return nil, err
	}
	o.to = o.file
	return o, nil
}

// Stdout returns an Output that writes to a stream.
func Stdout(to io.Writer) *Output { return &Output{to: to} }

// Close closes the file, and drops the lock.
func (o *Output) Close() error {
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close(), o.mark.file.Close())
}

// load reads the ids of OUT, cuts a line that a killed process has not written to its end, and goes
// behind what is left.
func (o *Output) load(ids *idSet) (done int, err error) {
	if o.file == nil {
		return 0, nil
	}
	lines := newLineReader(o.file)
	end := int64(0)
	for {
		text, err := lines.next()
		if err == io.EOF || lines.torn {
			break
		}
		id, ok := resultID(text)
		switch {
		case err != nil:
			return 0, fmt.Errorf("line %d: %w", lines.number, err)
		case !ok:
			return 0, fmt.Errorf("line %d is no result: --fresh moves the file away", lines.number)
		}
		if ids.addDone(id) {
			done++
		}
		end = lines.ended
	}
	if o.readOnly {
		return done, nil
	}
	if err = o.file.Truncate(end); err == nil {
		_, err = o.file.Seek(end, io.SeekStart)
	}
	return done, err
}

// resultHead is how a result begins that this program wrote.
const resultHead = `{"id":"batch_req_`

// resultID returns the custom_id of a line of OUT. Of the program's own lines it reads no more than
// their beginning.
func resultID(text []byte) (id string, ok bool) {
	if !bytes.HasSuffix(text, []byte("}")) {
		return "", false
	}
	if rest, own := bytes.CutPrefix(text, []byte(resultHead)); own {
		_, rest, own = bytes.Cut(rest, []byte(`","custom_id":`))
		if own && len(rest) > 0 && rest[0] == '"' {
			if id, err := stringOf(rest[:valueEnd(rest)]); err == nil {
				return id, true
			}
		}
	}
	var l struct {
		ID *string `json:"custom_id"`
	}
	if json.Unmarshal(text, &l) != nil || l.ID == nil {
		return "", false
	}
	return *l.ID, true
}

// write appends lines.
func (o *Output) write(text []byte) error {
	_, err := o.to.Write(text)
	return err
}

// sync makes what was written durable.
func (o *Output) sync() error {
	if o.file == nil {
		return nil
	}
	return o.file.Sync()
}
