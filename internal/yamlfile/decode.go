package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// maxForeign is the largest state file, in bytes, that is read in another layout than that of
// EncodeState. It bounds what a hostile file costs; in the layout of EncodeState only the size of
// the file does.
const maxForeign = 1 << 20

// ReadState reads the state file at path; nil where there is none. The error wraps
// state.ErrCorrupt when the file cannot be read for one, and state.ErrInvalidQuota too when a
// limit is no integer of zero or more or a zone is unknown. It is safe for concurrent use.
func ReadState(path string) (*state.Snapshot, error) {
	s, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, state.Corrupt(path, err)
	}
	return s, nil
}

func readFile(path string) (*state.Snapshot, error) {
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
	return DecodeState(f)
}

// DecodeState reads the layout of EncodeState line by line, and any other by way of the YAML
// library. It refuses a file that was cut off. The snapshot is nil where there is an error.
func DecodeState(f io.ReadSeeker) (*state.Snapshot, error) {
	if err := checkWhole(f); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	s, lineErr := scan(f)
	if lineErr == nil {
		return s, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxForeign+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxForeign {
		return nil, fmt.Errorf("larger than %d bytes and not in the layout that Persist writes: %w", maxForeign, lineErr)
	}
	return parse(data)
}
