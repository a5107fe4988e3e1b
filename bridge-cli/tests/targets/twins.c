/* Functions that share a name, names that share a function. With -DTWIN the other file of the two. */
__attribute__((noinline)) static int dup_static(int value)
{
#ifdef TWIN
	return value * 5 + 2;
#else
	return value * 3 + 1;
#endif
}

#ifdef TWIN
int twin(int value)
{
	return dup_static(value);
}
#else
int twin(int value);

__attribute__((noinline)) int real_fn(int value)
{
	return value + 7;
}

int alias_fn(int value) __attribute__((alias("real_fn")));
int weak_fn(int value) __attribute__((weak, alias("real_fn")));

int multi_small(int value)
{
	return value;
}

static int (*choose(void))(int)
{
	return multi_small;
}

int multi(int value) __attribute__((ifunc("choose")));

int main(int argc, char **argv)
{
	return multi(argc) + real_fn(argc) + dup_static(argc) + twin(argc) + argv[0][0];
}
#endif
