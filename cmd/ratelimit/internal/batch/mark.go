package batch

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"crypto/sha256"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/money"
)

// mark is the file beside OUT, which is locked as long as a process writes OUT. It says of which
// input OUT is, and what it has cost. There is no key and nothing of a line in it.
//
// It has two records in turn, so that one is whole at any moment.
type mark struct {
	file  *os.File
	state markState
}

// markState is a record.
type markState struct {
	Sequence int64        `json:"sequence"`
	Bytes    int64        `json:"input_bytes"`  // of the input, decompressed, as far as a run has read it
	SHA256   string       `json:"input_sha256"` // of these bytes
	Spent    money.Amount `json:"spent"`
	Running  bool         `json:"running"` // a run has begun, and not ended
}

// markRecord is the length of a record, whose rest is spaces.
const markRecord = 256

// MarkSuffix is what the name of the file beside OUT ends in.
const MarkSuffix = ".ratelimit"

// ErrLocked says that another process writes OUT.
var ErrLocked = errors.New("another process writes it")

// openMark opens and locks the file.
func openMark(path string) (*mark, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := fsx.TryLock(file)
	if err == nil && !ok {
		err = ErrLocked
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	m := &mark{file: file}
	if err == nil {
		err = m.read()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return m, nil
}

// read reads the later one of the records that are whole.
func (m *mark) read() error {
	text, err := io.ReadAll(io.LimitReader(m.file, 2*markRecord))
	for at := 0; at+markRecord <= len(text); at += markRecord {
		var s markState
		if json.Unmarshal(text[at:at+markRecord], &s) == nil && s.Sequence > m.state.Sequence {
			m.state = s
		}
	}
	return err
}

// write writes a state, which a killed process leaves, and if durable a machine that stops, too.
func (m *mark) write(s markState, durable bool) error {
	s.Sequence = m.state.Sequence + 1
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(text) >= markRecord {
		return fmt.Errorf("a record of %d bytes", len(text))
	}
	text = append(text, bytes.Repeat([]byte{' '}, markRecord-1-len(text))...)
	if _, err = m.file.WriteAt(append(text, '\n'), s.Sequence%2*markRecord); err == nil && durable {
		err = m.file.Sync()
	}
	if err == nil {
		m.state = s
	}
	return err
}

// begun reports whether a run has written OUT.
func (m *mark) begun() bool { return m.state.SHA256 != "" }

// fingerprint is the hash of an input as it is read, and of the part that an earlier run has read.
type fingerprint struct {
	hash    hash.Hash
	bytes   int64
	earlier int64  // how many bytes an earlier run has read
	same    string // the hash of these
}

func newFingerprint(earlier int64) *fingerprint {
	return &fingerprint{hash: sha256.New(), earlier: earlier}
}

// Write reads on.
func (f *fingerprint) Write(p []byte) (int, error) {
	n := len(p)
	if left := f.earlier - f.bytes; left > 0 && left <= int64(n) {
		f.hash.Write(p[:left])
		f.same, p = f.sum(), p[left:]
	}
	f.hash.Write(p)
	f.bytes += int64(n)
	return n, nil
}

func (f *fingerprint) sum() string { return hex.EncodeToString(f.hash.Sum(nil)) }
