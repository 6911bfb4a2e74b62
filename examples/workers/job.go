package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// workerArg is the first argument of a process that is a worker.
const workerArg = "worker"

// job is the task of a worker, passed as its arguments.
type job struct {
	worker int // its number
	db     string
	call   time.Duration // how long a call takes, more or less; in a batch its server decides

	url              string // of the server of a batch; empty without one
	prompts, workers int    // of the batch
}

// donePath is the file of the prompts that a process of a batch has answered.
func (j job) donePath() string { return fmt.Sprintf("%s.done.%d", j.db, j.worker) }

func (j job) args() []string {
	return []string{
		workerArg, strconv.Itoa(j.worker), j.db, j.call.String(),
		j.url, strconv.Itoa(j.prompts), strconv.Itoa(j.workers),
	}
}

// parseJob reads the arguments after the first.
func parseJob(args []string) (j job, err error) {
	if len(args) != 6 {
		return job{}, errors.New("parse job: want a number, a database, the length of a call, and a batch's address, prompts and workers")
	}
	j.db, j.url = args[1], args[3]
	j.call, err = time.ParseDuration(args[2])
	for _, field := range []struct {
		to   *int
		text string
	}{{&j.worker, args[0]}, {&j.prompts, args[4]}, {&j.workers, args[5]}} {
		n, failed := strconv.Atoi(field.text)
		*field.to, err = n, errors.Join(err, failed)
	}
	if err != nil {
		return job{}, fmt.Errorf("parse job: %w", err)
	}
	return j, nil
}
