/* A program with what marks one written in Go. */
__attribute__((section(".gopclntab"), used)) static const unsigned char lines[16] = { 0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8 };

__attribute__((noinline)) int work(int value)
{
	__asm__ volatile("" : "+r"(value));
	return value + 1;
}

int main(int argc, char **argv)
{
	(void)argv;
	return work(argc) - 2;
}
