package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// event is what a worker tells the parent, in a line of JSON on the pipe that all
// of them share. A line is so short that it is written in one piece. So lines stand
// in the order in which they were written, whoever wrote them.
type event struct {
	Worker int
	PID    int
	Done   bool      // the call is over; if not, it was admitted
	At     time.Time // when it was admitted
	Tokens int       // its estimate, or what it used when it is over
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
		return event{}, fmt.Errorf("parse what a worker told: %q: %w", line, err)
	}
	return e, nil
}
