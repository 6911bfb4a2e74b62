package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// doneFile remembers the answered prompts, so that an interrupted run can continue. It is
// a text file: the task, its batch and account, then a custom_id a line.
type doneFile struct {
	earlier map[string]bool // answered in earlier runs

	mu sync.Mutex
	f  *os.File
}

// openDone opens the file at path, or creates it. It drops the content of another task.
func openDone(path, task string) (*doneFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open progress: %w", err)
	}
	d := &doneFile{f: f}
	if err := d.read(task + "\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("read progress: %w", err), f.Close())
	}
	return d, nil
}

// read takes over the ids below header and leaves the file ready to be written
// to. A last line without its end was cut off by a crash, and goes.
func (d *doneFile) read(header string) error {
	data, err := io.ReadAll(d.f)
	if err != nil {
		return err
	}
	text := string(data)
	text = text[:strings.LastIndexByte(text, '\n')+1]
	ids, ours := strings.CutPrefix(text, header)
	if !ours {
		ids, text = "", ""
	}
	d.earlier = make(map[string]bool)
	for id := range strings.Lines(ids) {
		d.earlier[strings.TrimSuffix(id, "\n")] = true
	}
	if err := d.f.Truncate(int64(len(text))); err != nil {
		return err
	}
	if _, err := d.f.Seek(int64(len(text)), io.SeekStart); err != nil {
		return err
	}
	if ours {
		return nil
	}
	_, err = d.f.WriteString(header)
	return err
}

// has reports whether an earlier run got an answer to the prompt.
func (d *doneFile) has(id string) bool { return d.earlier[id] }

// add remembers an answered prompt. It is safe for concurrent use.
func (d *doneFile) add(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.f.WriteString(id + "\n"); err != nil {
		return fmt.Errorf("write progress: %w", err)
	}
	return nil
}

// remove deletes the file: everything is answered.
func (d *doneFile) remove() error {
	// Closed first, because Windows removes no open file.
	if err := d.close(); err != nil {
		return err
	}
	if err := os.Remove(d.f.Name()); err != nil {
		return fmt.Errorf("remove progress: %w", err)
	}
	return nil
}

// close closes the file. It may be called again.
func (d *doneFile) close() error {
	if err := d.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close progress: %w", err)
	}
	return nil
}
