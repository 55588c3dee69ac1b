package main

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	page      = 4096
	blockSize = 64 << 10
	fileSize  = 64 << 20
	stepUs    = 20
	// What takes longer than the last bucket counts there.
	buckets = 50_000
)

// Memory that the kernel really has to give: each page of it is written to, with what no page has in common.
func hold(mib int) []byte {
	held := make([]byte, mib<<20)
	for at := 0; at < len(held); at += page {
		held[at] = byte(at/page) | 1
	}
	return held
}

func write(path string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|syscall.O_DIRECT, 0o644)
	if err != nil {
		file, err = os.Create(path)
	}
	if err != nil {
		fail(err.Error())
	}
	block := aligned()
	for at := int64(0); ; at = (at + blockSize) % fileSize {
		if _, err := file.WriteAt(block, at); err != nil {
			fail(err.Error())
		}
	}
}

// A block that may go to the disk directly: from the memory map, so that it begins with a page.
func aligned() []byte {
	block, err := syscall.Mmap(-1, 0, blockSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		fail(err.Error())
	}
	return block
}

// One second of a service. Latency counts from when the request was due, not from when somebody got to it: what waits
// because the service is held up has been waiting. Keys of Counts are steps of 20 microseconds.
type second struct {
	At     float64     `json:"at"`
	Counts map[int]int `json:"counts"`
}

func serve(rate, rounds int, path string) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		fail(err.Error())
	}
	work := make([]byte, blockSize)
	for at := range work {
		work[at] = byte(at * 7)
	}
	between := time.Second / time.Duration(rate)
	var lock sync.Mutex
	now := second{Counts: map[int]int{}}
	begun := time.Now()
	for number := 0; ; number++ {
		due := begun.Add(time.Duration(number) * between)
		time.Sleep(time.Until(due))
		if number%rate == 0 && number > 0 {
			lock.Lock()
			now.At = float64(time.Now().UnixMilli()) / 1000
			line, _ := json.Marshal(now)
			now = second{Counts: map[int]int{}}
			lock.Unlock()
			out.Write(append(line, '\n'))
		}
		go func() {
			for range rounds {
				sha256.Sum256(work)
			}
			step := min(int(time.Since(due).Microseconds())/stepUs, buckets)
			lock.Lock()
			now.Counts[step]++
			lock.Unlock()
		}()
	}
}
