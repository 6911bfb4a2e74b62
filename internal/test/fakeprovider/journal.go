package fakeprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Record is a line of a server's journal: a request that was counted or refused.
type Record struct {
	At      time.Time `json:"at"`
	Model   string    `json:"model"`
	Refused bool      `json:"refused"` // with 429
	Status  int       `json:"status"`  // 200 unless it was refused, or [Answer] says otherwise
	Prompt  int       `json:"prompt_tokens"`
	Output  int       `json:"output_tokens"`
	// Charge is what the request counts to each dimension that is limited.
	Charge map[Dimension]int `json:"charge"`
}

// MarshalText returns the dimension's name.
func (d Dimension) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a dimension's name.
func (d *Dimension) UnmarshalText(text []byte) error {
	for i, name := range dimensionNames {
		if name == string(text) {
			*d = Dimension(i)
			return nil
		}
	}
	return fmt.Errorf("read a dimension: unknown name %q", text)
}

// journal is the file to which a server writes. Its server's lock guards it.
type journal struct {
	file *os.File
	err  error // the first one
}

// Keep makes the server write each request that it counts or refuses to the file at path, as a
// line of JSON. Requests that the file holds already count as if they had come to this server,
// so that its limits survive a restart. Keep makes the folder if it is not there. It must be called
// before the first request; the caller must call CloseJournal.
func (s *Server) Keep(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, size, err := readJournal(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if err := file.Truncate(size); err != nil { // a line that a crash has cut off
		return errors.Join(fmt.Errorf("open the journal: %w", err), file.Close())
	}
	if _, err := file.Seek(size, 0); err != nil {
		return errors.Join(fmt.Errorf("open the journal: %w", err), file.Close())
	}
	for _, r := range records {
		if m := s.model(r.Model); m != nil && !r.Refused {
			for d, n := range r.Charge {
				if m.meters[d] != nil {
					m.meters[d].add(r.At, n)
				}
			}
		}
	}
	s.journal = &journal{file: file}
	return nil
}

// CloseJournal closes the file of Keep, and returns the first error in writing it.
func (s *Server) CloseJournal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	err := errors.Join(s.journal.err, s.journal.file.Close())
	s.journal = nil
	return err
}

// write adds a record, at once, because a reader of the file may judge the client by it.
func (j *journal) write(r Record) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("write the journal: %w", err)
	}
}

// record writes an arrival to the journal if there is one. The server must be locked.
func (s *Server) record(m *model, now time.Time, charge [Dimensions]int, a *Answer, refused bool) {
	if s.journal == nil {
		return
	}
	r := Record{At: now, Model: m.name, Refused: refused, Status: 200, Charge: make(map[Dimension]int)}
	for d, meter := range m.meters {
		if meter != nil {
			r.Charge[Dimension(d)] = charge[d]
		}
	}
	switch {
	case refused:
		r.Status = 429
	case a.Status != 0:
		r.Status = a.Status
	default:
		r.Prompt, r.Output = a.Prompt, a.Output
	}
	s.journal.write(r)
}

// ReadJournal returns the records of a journal, the oldest first; none if there is no file. A
// last line without its end is passed over.
func ReadJournal(path string) ([]Record, error) {
	records, _, err := readJournal(path)
	return records, err
}

// readJournal returns also how many bytes whole lines have.
func readJournal(path string) (records []Record, size int64, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the journal: %w", err)
	}
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return records, size, nil
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, 0, fmt.Errorf("read the journal: line %d: %w", n, err)
		}
		for d, n := range r.Charge {
			if d >= InFlight || n < 0 || n > maxLimit {
				return nil, 0, fmt.Errorf("read the journal: charge of %d to %v", n, d)
			}
		}
		records = append(records, r)
		size += int64(len(line)) + 1
		text = rest
	}
}
