package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// event is a report of a worker to the parent, in a line of JSON on the pipe that all
// workers share. A line is short enough to be written in one piece, so the lines stand in
// the order of their writes.
type event struct {
	Worker int
	PID    int
	Done   bool      // the call is over; if not, it was admitted
	At     time.Time // when it was admitted
	Tokens int       // its estimate, or its real usage once it is over
}

func (e event) write(w io.Writer) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	return nil
}

func parseEvent(line []byte) (e event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return event{}, fmt.Errorf("parse the report of a worker: %q: %w", line, err)
	}
	return e, nil
}
